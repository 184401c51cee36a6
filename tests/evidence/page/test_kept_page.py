"""The pages of the kept reproduction, written again from its files, are those that are kept."""

import json

import pytest
from kept import KEPT

from layernorm_roles import shown
from layernorm_roles.evidence.page import page


@pytest.mark.skipif(not (KEPT / "settings.json").is_file(), reason="no kept reproduction")
def test_the_kept_pages_are_written_again(tmp_path):
    """If the change is meant: snakemake --cores all published_figures results/published/report.html"""
    settings = json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))
    tables = {path.stem: path for path in (KEPT / "parquet").glob("*.parquet")}
    figures = [name for room in shown.evidence_files(settings, tables) for name in room.figures]
    inputs = tables | {"figures": [KEPT / f"figures/{name}.png" for name in figures]}
    plan = {"settings": settings, "options": "", "tables": [*tables], "figures": figures}
    folder = tmp_path / KEPT.name
    folder.mkdir()
    names = ("report.html", "findings.html")
    page.write(
        plan, inputs | {"durations": KEPT / "tables/durations.csv"}, *(folder / name for name in names)
    )
    for name in names:
        kept, again = ((each / name).read_text(encoding="utf-8") for each in (KEPT, folder))
        lines = zip(kept.splitlines(), again.splitlines(), strict=False)
        assert not [pair for pair in lines if pair[0] != pair[1]][:1] and len(kept) == len(again), name

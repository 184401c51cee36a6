"""The pages of the kept reproduction, written again from its files, are those that are kept."""

import json

import pytest
from kept import KEPT

from layernorm_roles.evidence.figures import registry
from layernorm_roles.evidence.page import page


@pytest.mark.skipif(not (KEPT / "settings.json").is_file(), reason="no kept reproduction")
def test_the_kept_pages_are_written_again(tmp_path):
    """If the change is meant: snakemake --cores all published_figures published_report"""
    settings = json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))
    reproduction = page.Reproduction(
        name=KEPT.name,
        tables={path.stem: path for path in (KEPT / "parquet").glob("*.parquet")},
        figures={name: KEPT / f"figures/{name}.png" for name in registry.figures(settings)},
        settings=settings,
        durations=KEPT / "tables/durations.csv",
    )
    page.write(reproduction, tmp_path)
    for name in ("findings.html", "report.html"):
        kept, again = ((folder / name).read_text(encoding="utf-8") for folder in (KEPT, tmp_path))
        lines = zip(kept.splitlines(), again.splitlines(), strict=False)
        assert not [pair for pair in lines if pair[0] != pair[1]][:1] and len(kept) == len(again), name

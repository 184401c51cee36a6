"""The kept reproduction is a whole one and nothing older."""

import re
import shutil
from pathlib import Path

import pytest

from layernorm_roles import files
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.page import publish


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != files.CHECKSUMS)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def names(world) -> list[str]:
    paths = [*(world.inputs[name] for name in world.plan["tables"]), *world.inputs["figures"]]
    return [str(path.relative_to(world.folder)) for path in paths]


def test_what_is_kept_is_the_files_a_report_and_nothing_older(world, names, tmp_path):
    """Nor what an older kept run found, beside claims that were not run."""
    folders = ("run", "published", ".published.partial/published")
    run, kept, interrupted = (tmp_path / name for name in folders)
    for folder in (kept / "figures", interrupted):
        folder.mkdir(parents=True)
        (folder / "figure_of_last_year.png").write_bytes(b"old")
    shutil.copytree(world.folder, run)
    files.write_text(run / "tables/claims.md", "not run here; kept run: partial" * 100_000)
    older = {"verdict": "partial", "measured": "1", "ci_low": "0", "ci_high": "2"}
    with files.atomic_write(run / "parquet/large.parquet") as path:
        path.write_bytes(bytes(publish.LARGEST))
    names.append("parquet/large.parquet")
    plan = {"files": [*names, "tables/claims.md"], "kept": {claim.name: older for claim in CLAIMS}}
    publish.publish(world.plan | plan, run, kept)
    found = contents(kept)
    assert {*found} == {*names, "tables/claims.md", "report.html", "findings.html"}
    assert files.faults(kept) == [] and not interrupted.parent.exists()
    assert all(found[name] == (run / name).read_bytes() for name in names)
    assert b"partial" in found["tables/claims.md"]
    assert not [name for name, content in found.items() if b"kept run:" in content]
    page = found["report.html"].decode()
    assert "Reproduction “published”" in page and "--configfile" not in page


def test_an_unfinished_or_damaged_reproduction_is_refused_and_the_kept_one_stays(world, names, tmp_path):
    kept, run, plan = tmp_path / "published", tmp_path / "run", world.plan | {"files": names}
    publish.publish(plan, world.folder, kept)
    before = contents(kept)
    with pytest.raises(ValueError, match=re.escape("lacks figures/figure_99.png; run snakemake")):
        publish.publish(plan | {"files": [*names, "figures/figure_99.png"]}, world.folder, kept)
    with pytest.raises(ValueError, match=r"lacks 0, 1, 2, 3, 4 and 2 more; run"):
        publish.publish(plan | {"files": list("0123456")}, world.folder, kept)
    shutil.copytree(world.folder, run)
    (run / names[0]).write_bytes(b"")
    with pytest.raises(ValueError, match=r"claims\.parquet: damaged"):
        publish.publish(plan, run, kept)
    with files.atomic_write(run / names[0]) as path:
        path.write_bytes(bytes(publish.LARGEST + 1))
    with pytest.raises(ValueError, match=r"too large .*: parquet/claims\.parquet \(2,500,001 bytes\)$"):
        publish.publish(plan, run, kept)
    assert before == contents(kept)

"""The kept reproduction is a whole one and nothing older."""

import re
import shutil
from pathlib import Path

import pytest

from layernorm_roles import files
from layernorm_roles.evidence.page import publish


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != files.CHECKSUMS)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def names(world) -> list[str]:
    tables = [world.inputs[name] for name in world.plan["tables"]]
    paths = [*tables, *world.inputs["figures"], world.inputs["durations"]]
    return [str(path.relative_to(world.folder)) for path in paths]


def test_what_is_kept_is_the_files_a_report_and_nothing_older(world, names, tmp_path):
    kept = tmp_path / "published"
    (kept / "figures").mkdir(parents=True)
    (kept / "figures/figure_of_last_year.png").write_bytes(b"old")
    interrupted = tmp_path / ".published.partial/published"
    interrupted.mkdir(parents=True)
    (interrupted / "figure_of_an_interrupted_publication.png").write_bytes(b"old")
    publish.publish(world.plan | {"files": names}, world.folder, kept)
    found = contents(kept)
    assert {*found} == {*names, "report.html", "findings.html"}
    assert files.faults(kept) == [] and not interrupted.parent.exists()
    assert all(found[name] == (world.folder / name).read_bytes() for name in names)
    page = found["report.html"].decode()
    assert "Reproduction “published”" in page and "--configfile" not in page


def test_what_an_older_kept_run_found_is_not_kept(world, names, tmp_path):
    run, kept = tmp_path / "run", tmp_path / "published"
    shutil.copytree(world.folder, run)
    files.write_text(run / "tables/claims.md", "not run here; kept run: partial")
    plan = world.plan | {"files": [*names, "tables/claims.md"], "kept": {"faster": {"verdict": "partial"}}}
    publish.publish(plan, run, kept)
    assert b"partial" in contents(kept)["tables/claims.md"]
    assert not [name for name, content in contents(kept).items() if b"kept run:" in content]


def test_an_unfinished_or_damaged_reproduction_is_refused_and_the_kept_one_stays(world, names, tmp_path):
    kept = tmp_path / "published"
    publish.publish(world.plan | {"files": names}, world.folder, kept)
    before = contents(kept)
    with pytest.raises(ValueError, match=re.escape("lacks figures/figure_99.png; run snakemake")):
        publish.publish(world.plan | {"files": [*names, "figures/figure_99.png"]}, world.folder, kept)
    damaged = tmp_path / "damaged"
    shutil.copytree(world.folder, damaged)
    (damaged / names[0]).write_bytes(b"")
    with pytest.raises(ValueError, match=r"claims\.parquet: damaged"):
        publish.publish(world.plan | {"files": names}, damaged, kept)
    large = tmp_path / "large"
    shutil.copytree(world.folder, large)
    with files.atomic_write(large / names[0]) as path:
        path.write_bytes(bytes(publish.LARGEST + 1))
    with pytest.raises(
        ValueError, match=r"too large to be kept, .*: parquet/claims\.parquet \(2,000,001 bytes\)$"
    ):
        publish.publish(world.plan | {"files": names}, large, kept)
    assert before == contents(kept)

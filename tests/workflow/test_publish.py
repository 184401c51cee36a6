"""The script by which a maintainer replaces the kept tables: all of a finished reproduction and nothing older."""

import subprocess
import sys
from pathlib import Path

import pytest

from layernorm_roles import files

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/publish.py"


def published(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, SCRIPT, "results/full"], cwd=folder, capture_output=True, text=True
    )


@pytest.fixture
def folder(tmp_path):
    for name in ("report.html", "settings.json", "parquet/claims.parquet"):
        files.write_text(tmp_path / "results/full" / name, name)
    files.write_text(tmp_path / "results/published/parquet/older.parquet", "old")
    return tmp_path


def test_the_tables_take_the_place_of_the_kept_ones(folder):
    done, kept = published(folder), folder / "results/published"
    assert done.returncode == 0 and "readme" in done.stdout, done.stderr
    paths = [path for path in kept.rglob("*") if path.is_file() and path.parent.name != files.CHECKSUMS]
    there = {str(path.relative_to(kept)) for path in paths}
    assert there == {"settings.json", "parquet/claims.parquet"}
    assert files.read_bytes(kept / "settings.json") == b"settings.json"


@pytest.mark.parametrize("lost", ["unfinished", "damaged", "large"])
def test_what_is_kept_stays_if_the_reproduction_is_not_whole(folder, lost):
    run = folder / "results/full"
    if lost == "unfinished":
        (run / "report.html").unlink()
    elif lost == "damaged":
        (run / "parquet/claims.parquet").write_text("other")
    else:
        files.write_text(run / "parquet/claims.parquet", "x" * 2_500_001)
    done = published(folder)
    said = {"unfinished": "finished reproduction", "damaged": "damaged", "large": "at most 2,500,000 bytes"}
    assert done.returncode and said[lost] in done.stderr
    assert (folder / "results/published/parquet/older.parquet").is_file()

"""Who came for certificates alone needs neither torch nor pandas nor Snakemake."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "pandas", "snakemake", "pydantic", "matplotlib", "transformers")
BARE = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from layernorm_roles.selectability import certify, ceilings, expected_unselectable
from layernorm_roles.selectability.command_line import main
sys.exit(main(sys.argv[1:]))
"""
KEYS = np.random.default_rng(0).standard_normal((40, 3))


@pytest.mark.parametrize(
    ("threads", "kind", "out"),
    [
        (" 0 ", None, "verdicts.parquet"),
        ("-1", pa.list_(pa.float64(), 3), "verdicts.csv"),
        ("2", pa.large_list(pa.float64()), "verdicts.parquet"),
    ],
)
def test_certificates_are_made_and_written_without_what_experiments_need(tmp_path, threads, kind, out):
    """Of columns of lists, too, which other modules read, and whatever number of threads numba refuses."""
    name = "keys.npy" if kind is None else "keys.parquet"
    np.save(tmp_path / "keys.npy", KEYS)
    if kind is not None:
        table = pa.table({"vector": pa.array(KEYS.tolist(), kind)})
        pq.write_table(table, tmp_path / name, row_group_size=20)
    environment = os.environ | {"NUMBA_NUM_THREADS": threads}
    command = [sys.executable, "-c", BARE, name, "--out", out]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "every certificate verified" in done.stdout, done.stderr
    assert (tmp_path / out).is_file()


@pytest.mark.long
def test_the_wheel_alone_certifies_a_file(tmp_path):
    """Installed into an empty environment, from the package index that pip is set up with."""

    def run(*command):
        return subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, check=True)

    source = tmp_path / "source"  # building leaves folders behind
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "venv", "empty")
    python, command = tmp_path / "empty/bin/python", tmp_path / "empty/bin/certify-keys"
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source)
    (wheel,) = tmp_path.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    np.save(tmp_path / "keys.npy", KEYS)
    said = run(command, "keys.npy", "--out", "verdicts.parquet").stdout
    assert "every certificate verified" in said and (tmp_path / "verdicts.parquet").is_file()
    installed = set(run(python, "-m", "pip", "list", "--format=freeze").stdout.lower().split())
    names = {line.partition("==")[0] for line in installed}
    assert not names & set(HEAVY) and len(names) < 15
    assert f"layernorm-roles=={metadata.version('layernorm-roles')}" in installed

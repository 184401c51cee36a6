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


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_certificates_are_made_and_written_without_what_experiments_need(tmp_path, ending):
    """Of columns of lists, too, whose kinds are read by modules that any other test may have imported."""
    np.save(tmp_path / "keys.npy", KEYS)
    vector = pa.array(
        KEYS.tolist(), {".parquet": pa.list_(pa.float64(), 3), ".csv": pa.large_list(pa.float64())}[ending]
    )
    pq.write_table(pa.table({"vector": vector}), tmp_path / "keys.parquet", row_group_size=20)
    for name in ("keys.npy", "keys.parquet"):
        out = tmp_path / f"{name}_verdicts{ending}"
        command = [sys.executable, "-c", BARE, str(tmp_path / name), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "every certificate verified" in done.stdout, done.stderr
        assert out.is_file()


@pytest.mark.parametrize("threads", [" 0 ", "-1", "2"])
def test_a_number_of_threads_that_numba_refuses_stops_nothing(threads):
    code = "from layernorm_roles.selectability import certify; print(certify([[0.0], [1.0]]).counts())"
    environment = os.environ | {"NUMBA_NUM_THREADS": threads}
    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert said.startswith("{'selectable': 2")


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
    np.save(tmp_path / "keys.npy", np.random.default_rng(0).standard_normal((50, 3)))
    said = run(command, "keys.npy", "--out", "verdicts.parquet").stdout
    assert "every certificate verified" in said and (tmp_path / "verdicts.parquet").is_file()
    installed = set(run(python, "-m", "pip", "list", "--format=freeze").stdout.lower().split())
    names = {line.partition("==")[0] for line in installed}
    assert not names & set(HEAVY) and len(names) < 15
    assert f"layernorm-roles=={metadata.version('layernorm-roles')}" in installed

"""Compiled kernels: a process that compiles one and a process that loads it from the cache compute the same bytes."""

import os
import pickle
import stat
import subprocess
import sys

import pytest

from layernorm_roles import compiling

PROGRAMS = {
    "cross-entropy": """
from layernorm_roles.language_model.cross_entropy import fused
hidden, weight = (torch.tensor(rng.random((rows, 8)), dtype=torch.float32) for rows in (70, 300))
arrays = [t.numpy() for t in fused(hidden, weight, torch.arange(70))]
""",
    "majority": """
from layernorm_roles.majority import kernel
from layernorm_roles.majority.parameters import Sizes
counts = rng.multinomial(50, np.ones(20) / 20, size=600).astype(np.uint8)
parameters = [rng.standard_normal(shape) for shape in Sizes(20, 8, 8).shapes]
loss, _, gradients = kernel.loss_and_gradients(counts, counts.argmax(axis=1), parameters)
arrays = [np.array(loss), *gradients]
""",
    "verdicts": """
from layernorm_roles.selectability import certify
verdicts = [certify(rng.standard_normal((n, d))) for n, d in ((300, 4), (500, 8), (200, 16))]
verdicts.append(certify(rng.standard_normal((300, 5)), bias=rng.standard_normal(300)))
arrays = [a for c in verdicts for a in (c.verdict, c.margin, c.residual)]
""",
    "ceilings": """
from layernorm_roles.selectability import ceilings
found = [ceilings(rng.standard_normal((n, d))) for n, d in ((200, 2), (100, 16))]
arrays = [a for c in found for a in (c.lower, c.upper, c.query)]
""",
}


@pytest.mark.parametrize(
    "part", ["cross-entropy", *(pytest.param(part, marks=pytest.mark.long) for part in [*PROGRAMS][1:])]
)
def test_compiled_and_loaded_kernels_give_the_same_bytes(part, tmp_path):
    program = (
        "import hashlib; import numpy as np; import torch; rng = np.random.default_rng(0); torch.manual_seed(0)\n"
        + PROGRAMS[part]
        + "print([hashlib.sha256(np.ascontiguousarray(a)).hexdigest()[:16] for a in arrays])"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def output():
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    compiled, loaded = output(), output()
    assert any(tmp_path.rglob("*.nbc"))
    assert loaded.stdout == compiled.stdout
    assert compiled.stderr.count("\n") == 1, "one line says that it compiles"
    assert loaded.stderr == ""


SMALL = """
import numpy as np
from layernorm_roles.compiling import compilation_notice
from layernorm_roles.selectability.duplicates import equal_rows
with compilation_notice("it", 1):
    print(equal_rows(np.array([[[1], [2], [1]]], np.uint64), False))
"""


def started(cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", SMALL], env=environment, text=True, **pipes)


def small(cache):
    process = started(cache)
    output = subprocess.CompletedProcess(process.args, process.wait(), *process.communicate())
    output.check_returncode()
    return output


@pytest.fixture(scope="module")
def small_cache(tmp_path_factory):
    """A cache with one function, and what a process prints that has compiled it."""
    folder = tmp_path_factory.mktemp("cache")
    done = small(folder)
    assert "compiling it" in done.stderr
    return folder, done.stdout


def test_what_is_compiled_lies_where_only_its_owner_may_write(small_cache):
    (folder,) = (path for path in small_cache[0].iterdir() if path.is_dir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert small(small_cache[0]).stderr == ""
    folder.chmod(0o770)
    done = small(small_cache[0])
    folder.chmod(0o700)
    assert done.stdout == small_cache[1]
    assert "compiling it" in done.stderr and "nothing compiled is kept" in done.stderr


def test_of_several_processes_one_compiles_and_the_others_wait_for_it(tmp_path):
    processes = [started(tmp_path) for _ in range(3)]
    said = [process.communicate() for process in processes]
    assert len({out for out, _ in said}) == 1 and not any(process.returncode for process in processes)
    assert sum("compiling it" in error for _, error in said) == 1


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "how", ["planted", *(pytest.param(how, marks=pytest.mark.long) for how in ("flipped", "cut"))]
)
def test_a_damaged_cache_is_compiled_again_and_never_run(small_cache, ending, how, tmp_path):
    class Planted:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    (file,) = small_cache[0].rglob(f"*{ending}")
    content = file.read_bytes()
    flipped = content[:40] + bytes([content[40] ^ 1]) + content[41:]
    file.write_bytes({"flipped": flipped, "cut": content[:50], "planted": pickle.dumps(Planted())}[how])
    done = small(small_cache[0])
    assert done.stdout == small_cache[1] and "compiling it" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert small(small_cache[0]).stderr == "", "the damage is gone"


@pytest.mark.parametrize("edited", ["kernel_for_test.py", "helper_for_test.py"])
def test_each_version_of_a_source_and_of_what_it_imports_has_a_folder_of_its_own(
    tmp_path, monkeypatch, edited
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper_for_test.py").write_text("a = 1\n")
    (tmp_path / "kernel_for_test.py").write_text("import helper_for_test\n")
    text, folders = (tmp_path / edited).read_text(), []
    for more in ("", "b = 2\n", ""):
        (tmp_path / edited).write_text(text + more)
        folders.append(compiling.cache_folder(tmp_path / "kernel_for_test.py"))
    assert folders[0] == folders[2] != folders[1]

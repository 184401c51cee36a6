"""Compiled kernels: a process that compiles one and a process that loads it from the cache compute the same bytes."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

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
from layernorm_roles.compiling import compilation_notice
from small_kernel import doubled
with compilation_notice("it", 1):
    print(doubled(3))
"""


def started(cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    here = Path(__file__).parent
    return subprocess.Popen([sys.executable, "-c", SMALL], env=environment, cwd=here, text=True, **pipes)


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
    (folder,) = small_cache[0].glob("layernorm-roles/*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert small(small_cache[0]).stderr == ""
    folder.chmod(0o777)
    done = small(small_cache[0])
    folder.chmod(0o700)
    assert done.stdout == small_cache[1]
    assert "compiling it" in done.stderr and "nothing compiled is kept" in done.stderr


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", pytest.param(b"garbage", marks=pytest.mark.long)])
def test_a_damaged_cache_is_compiled_again(small_cache, ending, content):
    (file,) = small_cache[0].rglob(f"*{ending}")
    file.write_bytes(content)
    done = small(small_cache[0])
    assert done.stdout == small_cache[1]
    assert "compiling it" in done.stderr and "the cache fails" in done.stderr
    assert "compiling it" in small(small_cache[0]).stderr, "nothing damaged is left"
    assert small(small_cache[0]).stderr == ""


def test_whatever_compiled_code_is_made_of_counts():
    counted = set(compiling.kernel_sources())
    package = Path(compiling.__file__).parent
    compiles = [
        path
        for path in package.rglob("*.py")
        if re.search(r"import .*\b(cached_)?njit\b", path.read_text("utf-8"))
    ]
    assert len(compiles) > 8
    seen, waiting = set(), compiles
    while waiting:
        path = waiting.pop()
        if path in seen or path.name == "__init__.py":
            continue
        seen.add(path)
        for module in re.findall(
            r"^from (layernorm_roles[\w.]*) import", path.read_text("utf-8"), re.MULTILINE
        ):
            waiting.append((package.parent / module.replace(".", "/")).with_suffix(".py"))
    assert seen <= counted

"""Compiled kernels: a process that compiles one and a process that loads it from the cache compute the same bytes."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from layernorm_roles import compiling

BEFORE = """
import hashlib; import numpy as np; import torch; rng = np.random.default_rng(0); torch.manual_seed(0)
"""
AFTER = "print([hashlib.sha256(np.ascontiguousarray(a)).hexdigest()[:16] for a in arrays])"
PROGRAMS = {
    "cross-entropy": """
from layernorm_roles.language_model.cross_entropy import fused
hidden, weight = (torch.tensor(rng.random((rows, 8)), dtype=torch.float32) for rows in (70, 300))
arrays = [t.numpy() for t in fused(hidden, weight, torch.arange(70))]
""",
    "majority": """
from layernorm_roles.majority import kernel
from layernorm_roles.majority.parameters import shapes
counts = rng.multinomial(50, np.ones(20) / 20, size=600).astype(np.uint8)
parameters = [rng.standard_normal(shape).astype(np.float32) for shape in shapes(20, 8, 8)]
loss, _, gradients = kernel.loss_and_gradients(counts, counts.argmax(axis=1), parameters)
arrays = [np.array(loss), *gradients]
""",
    "verdicts and ceilings": """
from layernorm_roles.selectability import ceilings, certify
keys, bias = rng.standard_normal((300, 8)), rng.standard_normal(300)
verdicts, found = (certify(keys), certify(keys, bias)), ceilings(keys)
arrays = [*(a for c in verdicts for a in (c.verdict, c.margin, c.residual)), found.lower, found.upper]
""",
}
PROGRAMS = {part: BEFORE + program + AFTER for part, program in PROGRAMS.items()}
"""Programs that compile the kernels of one part, and print hashes of what these compute."""


def run(cache, program, variable="NUMBA_CACHE_DIR"):
    """What a process prints whose compiled code lies in `cache`, by the value of an environment variable."""
    others = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = {**others, variable: str(cache)}
    command = [sys.executable, "-c", program]
    here = Path(__file__).parent
    return subprocess.run(command, env=environment, cwd=here, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "part", ["cross-entropy", *(pytest.param(part, marks=pytest.mark.long) for part in [*PROGRAMS][1:])]
)
def test_compiled_and_loaded_kernels_give_the_same_bytes(part, tmp_path):
    compiled, loaded = run(tmp_path, PROGRAMS[part]), run(tmp_path, PROGRAMS[part])
    assert any(tmp_path.rglob("*.nbc")) and loaded.stdout == compiled.stdout
    said = compiled.stderr.splitlines()
    assert all("compiling" in line for line in said) and loaded.stderr == ""
    assert len(said) == len(part.split(" and ")), "a line for each says that it compiles"


IN_ORDER = (
    BEFORE
    + """
from layernorm_roles.language_model.attention import causal_attention
from layernorm_roles.language_model.cross_entropy import fused
qkv, hidden, weight = (torch.tensor(rng.random((n, 40, 24)), dtype=torch.float32) for n in (2, 1, 3))
kernels = {
    "attention": lambda: [causal_attention(qkv, 2)],
    "cross-entropy": lambda: fused(hidden[0], weight.flatten(0, 1), torch.arange(40)),
    "cross-entropy of two features": lambda: fused(hidden[0, :, :2], weight.flatten(0, 1)[:, :2], torch.arange(40)),
}
found = {name: kernels[name]() for name in ORDER}
arrays = [t.numpy() for name in kernels for t in found[name]]
"""
)


@pytest.mark.long
def test_kernels_give_the_same_bytes_in_whatever_order_they_are_compiled(tmp_path):
    order, said = ["cross-entropy", "attention", "cross-entropy of two features"], set()
    for folder, names in (("one", order), ("other", order[::-1])):
        done = run(tmp_path / folder, IN_ORDER.replace("ORDER", repr(names)) + AFTER)
        assert "compiling" in done.stderr
        said.add(done.stdout)
    assert len(said) == 1


SMALL = """
from small_kernel import doubled
from layernorm_roles.compiling import compilation_notice
with compilation_notice("it", 1):
    print(doubled(3))
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A cache with one function, and a function that runs it in a new process, and gives the messages."""
    folder = tmp_path_factory.mktemp("cache")
    first = run(folder, SMALL, "XDG_CACHE_HOME")
    assert "compiling it" in first.stderr

    def again():
        done = run(folder, SMALL, "XDG_CACHE_HOME")
        assert done.stdout == first.stdout
        return done.stderr

    return folder, again


def test_what_is_compiled_lies_where_only_its_owner_may_write(small):
    cache, again = small
    (folder,) = cache.glob("layernorm-roles/*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and again() == ""
    folder.chmod(0o777)
    said = again()
    folder.chmod(0o700)
    assert "compiling it" in said and "nothing compiled is kept" in said


def test_another_processor_compiler_or_source_has_a_folder_of_its_own(tmp_path, monkeypatch):
    numba, folder = compiling.numba, compiling._cache_folder.__wrapped__
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    changes = [(numba, "__version__", "9"), (numba.config, "CPU_FEATURES", "+few")]
    changes += [(compiling.llvmlite.binding, "get_host_cpu_name", str), (compiling, "kernel_sources", list)]
    found = {folder(), *(monkeypatch.setattr(*change) or folder() for change in changes)}
    assert len(found) == 5 and {path.parent for path in found} == {tmp_path / "layernorm-roles"}
    made = folder()
    assert not any(made.chmod(mode) or folder() for mode in (0o720, 0o702)), "others may write there"
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder().parent == tmp_path / ".cache/layernorm-roles"


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", pytest.param(b"garbage", marks=pytest.mark.long)])
def test_a_damaged_cache_is_compiled_again(small, ending, content):
    cache, again = small
    (file,) = cache.rglob(f"*{ending}")
    file.write_bytes(content)
    said = again()
    assert "compiling it" in said and "the cache fails" in said
    assert "compiling it" in again(), "nothing damaged is left"
    assert again() == ""

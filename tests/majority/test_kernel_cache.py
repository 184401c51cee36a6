"""The compiled kernel on disk: what is loaded computes what was compiled, and an edit of any of its files counts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import layernorm_roles

PROGRAM = """
import numpy as np
from layernorm_roles.majority import kernel
from layernorm_roles.majority.parameters import Sizes
rng = np.random.default_rng(0)
counts = rng.multinomial(50, np.ones(20) / 20, size=600).astype(np.uint8)
parameters = [rng.standard_normal(shape) for shape in Sizes(20, 8, 8).shapes]
loss, _, gradients = kernel.loss_and_gradients(counts, counts.argmax(axis=1), parameters)
print(loss.hex(), *(gradient.tobytes().hex() for gradient in gradients))
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the package with an empty cache: its folder, and a function that runs `PROGRAM` with it."""
    folder = tmp_path_factory.mktemp("copy")
    package = shutil.copytree(Path(layernorm_roles.__file__).parent, folder / "layernorm_roles")
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}

    def computed():
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    return package, computed


def test_the_cache_gives_the_bytes_that_were_compiled_and_is_left_when_a_helper_is_edited(copied):
    """In float64, because a rounding to float32 hides most differences of the last bit."""
    package, computed = copied
    compiled, notice = computed()
    assert notice == "compiling the majority kernel, once (about 20 s)\n"
    assert computed() == (compiled, ""), "loaded, not compiled"

    helper = package / "majority" / "kernel" / "block.py"
    line = "        loss += n[p] * (log(total[p]) + margin[p])\n"
    text = helper.read_text()
    assert text.count(line) == 1
    helper.write_text(text.replace(line, "        loss += n[p] * (log(total[p]) + margin[p]) * 2\n"))
    edited, notice = computed()
    assert notice.startswith("compiling")
    (loss, *gradients), (edited_loss, *edited_gradients) = compiled.split(), edited.split()
    assert float.fromhex(edited_loss) == pytest.approx(2 * float.fromhex(loss), rel=1e-12)
    assert edited_gradients == gradients

    helper.write_text(text)
    assert computed() == (compiled, ""), "both versions stay in the cache"

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"

# Second methods, models made by hand and checkouts stand beside the tests that they were made for.
sys.path += [str(TESTS / folder) for folder in ("selectability", "language_model", "workflow")]


def checked_modules():
    """Modules whose signatures are checked at every call: all but those that numba compiles."""
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text("utf-8")
        compiles = re.search(r"(?m)^(from|import) numba|kernel.jit import|compiling import .*njit", text)
        # The kernel's public face checks its arguments itself, and is tested with those that do not fit.
        if file.name != "__init__.py" and not compiles and file.parent.name not in ("kernel", "kernels"):
            yield ".".join(file.relative_to(SOURCE).with_suffix("").parts)


# Before any test imports the package: array shapes and types of every call are those that the signature says.
install_import_hook([*checked_modules()], "beartype.beartype")

# A busy machine is no mistake.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

# One thread: results do not depend on the machine's cores, and parallel test runs do not fight for them.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A function that makes a checkout of the workflow with some settings, in which a test may break things."""
    from checkouts import Checkout

    return lambda settings: Checkout(tmp_path_factory.mktemp("checkout"), settings)


@pytest.fixture
def drawn(monkeypatch):
    """The random streams that a test draws from, by the streams' numbers: a set of the seeds of each."""
    plain, made = np.random.SeedSequence, {}

    def watched(seed, spawn_key):
        made.setdefault(spawn_key[0], set()).add(seed)
        return plain(seed, spawn_key=spawn_key)

    monkeypatch.setattr(np.random, "SeedSequence", watched)
    return made

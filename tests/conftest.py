import os
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src"


def checked_modules():
    """Modules whose signatures are checked at every call: all but those that numba or Triton compiles."""
    for file in sorted(SOURCE.rglob("*.py")):
        compiles = re.search(
            r"^(from|import) (numba|triton)|kernel.jit import|compiling import .*njit",
            file.read_text("utf-8"),
            re.MULTILINE,
        )
        # The kernel's public face checks its arguments itself, and is tested with those that do not fit.
        if file.name != "__init__.py" and not compiles and file.parent.name != "kernel":
            yield ".".join(file.relative_to(SOURCE).with_suffix("").parts)


# Before any test imports the package: array shapes and types of every call are those that the signature says.
install_import_hook([*checked_modules()], "beartype.beartype")

# Triton's kernels run in its interpreter where there is no GPU. It reads this when it is imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# A busy machine is no mistake.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

# One thread: results do not depend on the machine's cores, and parallel test runs do not fight for them.
torch.set_num_threads(1)

_MUTATIONS: Counter = Counter()


@pytest.fixture(scope="session")
def mutations():
    """Spoilt configurations that were refused, by the key they spoil; counted for the summary."""
    return _MUTATIONS


def pytest_terminal_summary(terminalreporter):
    if _MUTATIONS:
        terminalreporter.section("configuration")
        terminalreporter.write_line(
            f"{len(_MUTATIONS)} keys, {_MUTATIONS.total()} mutations, all refused with the key named"
        )

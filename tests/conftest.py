import os
from collections import Counter

import pytest
import torch

# Triton's kernels run in its interpreter where there is no GPU. It reads this when it is imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

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

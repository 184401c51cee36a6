"""Runs that end at one of their checkpoints, as if they were killed there."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest

from layernorm_roles.checkpoint import Checkpoint


class Killed(Exception):
    """Raised in the place of a signal that ends the process."""


@contextmanager
def killed_after(checkpoints, save=Checkpoint.save):
    """What runs within ends when it has saved so many checkpoints."""
    left = iter(range(checkpoints - 1, -1, -1))

    def save_and_die(*args):
        save(*args)
        if next(left) == 0:
            raise Killed

    with patch.object(Checkpoint, "save", save_and_die), pytest.raises(Killed):
        yield

from functools import cache

import pytest
from random_models import random_network

from layernorm_roles.pretrained import recording
from layernorm_roles.pretrained.source import files_at


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A function from the name of an architecture to the folder of a model that it saved there once."""

    @cache
    def save(architecture):
        folder = tmp_path_factory.mktemp(architecture)
        random_network(architecture).save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def model(saved):
    """A function from the name of an architecture to a recording model with random weights."""
    return lambda architecture: recording.load(files_at(saved(architecture), "path"))

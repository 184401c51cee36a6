"""What the profiles say about GPUs."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*/config.yaml"))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.parent.name)
def test_no_profile_has_configuration(profile):
    """A value given with --config would replace all of it, silently: the device is in config.yaml or a preset."""
    assert "config" not in yaml.safe_load(profile.read_text(encoding="utf-8"))

"""What the profiles say about GPUs."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*/config.yaml"))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.parent.name)
def test_no_profile_has_configuration(profile):
    """A value given with --config would replace all of it, silently: the device is in config.yaml or a preset."""
    assert "config" not in yaml.safe_load(profile.read_text(encoding="utf-8"))


def test_the_commented_settings_for_gpus_are_settings():
    text = (ROOT / "profiles/slurm/config.yaml").read_text(encoding="utf-8")
    blocks = re.findall(r"^# set-resources:\n(?:#   .*\n)+", text, re.MULTILINE)
    settings = [yaml.safe_load(re.sub("^# ", "", block, flags=re.MULTILINE)) for block in blocks]
    assert [one["set-resources"]["language_model_train"] for one in settings] == [
        {"gpu": 0, "gres": "gpu:1"},
        {"gpu_model": "a100"},
    ]
    rules = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    assert re.search(r"^rule language_model_train:", rules, re.MULTILINE)

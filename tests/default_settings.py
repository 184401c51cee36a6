"""Settings of config.yaml's default run, with changes, for tests."""

from pathlib import Path

import yaml

from layernorm_roles.settings.language_model import BERTSettings, GPTSettings
from layernorm_roles.settings.loading import resolve
from layernorm_roles.settings.majority import MajorityExperiment, MajorityTraining
from layernorm_roles.settings.random_keys import RandomKeys
from layernorm_roles.settings.statements import Statements
from layernorm_roles.settings.text import Text

ROOT = Path(__file__).parents[1]
DEFAULT = resolve(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))

_SECTIONS = {
    MajorityExperiment: DEFAULT["majority"]["d8"],
    MajorityTraining: {key: DEFAULT["majority"]["d8"][key] for key in MajorityTraining.model_fields},
    RandomKeys: DEFAULT["random_keys"],
    **{field.annotation: DEFAULT["statements"][name] for name, field in Statements.model_fields.items()},
    Text: DEFAULT["text"]["words"],
    GPTSettings: {key: DEFAULT["language_model"]["gpt"][key] for key in GPTSettings.model_fields},
    BERTSettings: {key: DEFAULT["language_model"]["bert"][key] for key in BERTSettings.model_fields},
}


def example(section, **changes):
    """The default settings of a class of layernorm_roles.settings, with other values for some of its keys."""
    return section.model_validate(_SECTIONS[section] | changes)

"""What config.yaml may say: one frozen class a section, with types, bounds, meanings and units.

`load` checks the whole configuration before any work starts. `python -m layernorm_roles.settings` prints the JSON
schema, with which editors complete and check config.yaml.
"""

from layernorm_roles.settings.language_model import BERTSettings, GPTSettings, LanguageModel
from layernorm_roles.settings.loading import load, resolve
from layernorm_roles.settings.majority import MajorityData, MajorityExperiment, MajorityTraining
from layernorm_roles.settings.random_keys import Precision, RandomKeys
from layernorm_roles.settings.reproduction import Settings
from layernorm_roles.settings.statements import (
    BatchDependence,
    Fusion,
    Geometry,
    Placement,
    ScoreScale,
    Statements,
)
from layernorm_roles.settings.text import Contexts, Source, Split, Text

__all__ = [
    "BERTSettings",
    "BatchDependence",
    "Contexts",
    "Fusion",
    "GPTSettings",
    "Geometry",
    "LanguageModel",
    "MajorityData",
    "MajorityExperiment",
    "MajorityTraining",
    "Placement",
    "Precision",
    "RandomKeys",
    "ScoreScale",
    "Settings",
    "Source",
    "Split",
    "Statements",
    "Text",
    "load",
    "resolve",
]

"""Lists the kinds of work (stages) by which the results of a configuration are made, and the Parquet tables.

After an edit of code that is listed for a kind of work, Snakemake does that work again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from layernorm_roles import source_code


class Stage(NamedTuple):
    """A kind of work, by the name of its rule, such as majority_train, and what its results come from."""

    sources: tuple[str, ...]
    """Folders and files of this package whose code makes the results; after an edit of one, the work is done again."""
    packages: tuple[str, ...] = ()
    """Names of installed packages that compute the numbers; with another version of one, the work is done again."""
    section: str = ""
    """The section of config.yaml from which the results come, such as statements.placement."""
    tables: str = ""
    """The names of the Parquet tables of measured results that the work writes, separated by spaces."""


_GROUND = ("files.py", "provenance.py", "random_streams.py", "schemas.csv", "schemas.py", "store.py")
_TRAINED = ("checkpoint.py", "divergence.py", "gpu", "optimiser.py")
_NETWORKS = ("compiling.py", "elementary.py", "norms.py", "variants.py", *_TRAINED)
_KEYS = ("compiling.py", "heads", "ones_direction.py", "selectability", "slices.py")
_TEXT = ("settings/text.py", "text")
_MAJORITY = ("partitions.py", "settings/majority.py")
_LANGUAGE_MODEL = (*_GROUND, *_NETWORKS, *_TEXT, "language_model", "settings/language_model.py")
_STATEMENT = (*_GROUND, *_NETWORKS, "settings/statements.py", "statements")
_EVIDENCE = (*_GROUND, "evidence/analysis", "evidence/legends.py", "gaussian_keys.py", "variants.py")
_SHOWN = (
    *_EVIDENCE,
    *"evidence/claims evidence/draw.py evidence/figures evidence/tables shown.py shown.yaml".split(),
)
_TORCH = ("numba", "numpy", "torch")
_DRAWN = ("matplotlib", "numpy", "pandas", "pillow", "scipy", "seaborn")

STAGES = {
    "download": Stage((*_GROUND, *_TEXT), ("datasets",)),
    "text": Stage((*_GROUND, *_TEXT), ("mwparserfromhell", "numpy", "tokenizers")),
    "majority_data": Stage((*_GROUND, *_MAJORITY, "majority/data.py"), ("numpy",)),
    "majority_train": Stage(
        (*_GROUND, *_NETWORKS, *_MAJORITY, "majority"),
        _TORCH,
        "majority",
        "majority_metrics majority_vectors",
    ),
    "random_keys_measure": Stage(
        (*_GROUND, *_NETWORKS, *_KEYS, "gaussian_keys.py", "random_keys", "settings/random_keys.py"),
        (*_TORCH, "scipy"),
        "random_keys",
        "random_keys random_keys_precision gaussian_law",
    ),
    "language_model_train": Stage(
        (*_LANGUAGE_MODEL, "heads/layer.py", "slices.py"),
        _TORCH,
        "language_model",
        "language_model_metrics language_model_attention",
    ),
    "language_model_measure": Stage(
        (*_LANGUAGE_MODEL, *_KEYS),
        (*_TORCH, "scipy"),
        "language_model",
        "key_selectability sentence_tokens language_model_ones_share language_model_ceilings",
    ),
    "language_model_gradients": Stage(
        (*_LANGUAGE_MODEL, "heads/layer.py", "slices.py"),
        _TORCH,
        "language_model",
        "language_model_gradients",
    ),
    "geometry": Stage(_STATEMENT, _TORCH, "statements.geometry", "geometry geometry_cloud"),
    "fusion": Stage(_STATEMENT, _TORCH, "statements.fusion", "fusion"),
    "placement": Stage(
        (*_STATEMENT, "text"),
        _TORCH,
        "statements.placement",
        "placement untrained_gradients position_probe",
    ),
    "batch_dependence": Stage(_STATEMENT, _TORCH, "statements.batch_dependence", "batch_dependence"),
    "score_scale": Stage(_STATEMENT, (*_TORCH, "scipy"), "statements.score_scale", "score_scale"),
    "pretrained_measure": Stage(
        (*_GROUND, *_NETWORKS, *_KEYS, "pretrained", "settings/pretrained.py", "text"),
        (*_TORCH, "scipy", "transformers"),
        "pretrained",
        "pretrained_keys attention_ceilings token_ceilings ones_share projection_shift",
    ),
    "tables": Stage(_GROUND),
    "claims": Stage((*_EVIDENCE, "evidence/claims"), ("numpy", "pandas", "scipy")),
    "draw": Stage(_SHOWN, _DRAWN),
    "page": Stage((*_SHOWN, "evidence/page"), _DRAWN),
    "durations": Stage(_EVIDENCE),
    "settings": Stage(("files.py", "provenance.py", "random_streams.py")),
}
"""The stages by the name of their rule, in the order in which results go through them, from texts and data to pages."""

_EXEMPT = {
    "says which code counts": "catalogue.py source_code.py",
    "says which jobs there are, and plans hold what they say": "batches.py exhibits.py plans.py reproduction.py",
    "compares the plans of jobs with those that they left": "plan.py",
    "logs, progress, errors and warnings": "memory.py script.py",
    "names a package": "__init__.py evidence/__init__.py settings/__init__.py",
    "checks what config.yaml says, and plans hold what it is then": "settings/__main__.py settings/base.py "
    "settings/json_schema.py settings/loading.py settings/reproduction.py settings/yaml_files.py",
}
EXEMPT = {file: reason for reason, files in _EXEMPT.items() for file in files.split()}
"""Files and folders of this package, each with what it does, through which no number of the results passes: after an
edit of them no work is done again."""


EVIDENCE = ("claims", "draw", "page", "durations", "settings")
"""Names of the last stages, which judge and show the results that earlier stages have computed."""
COMPUTING = tuple(stage for stage in STAGES if stage not in EVIDENCE)
"""Names of the other stages."""

TABLES = {table: name for name, stage in STAGES.items() for table in stage.tables.split()}
"""By name of a Parquet table of measured results, the stage that writes it."""


def code(stage: str) -> str:
    """A hash of the code and the package versions on which the results of a stage depend, in 16 hexadecimal digits.

    `stage` is a kind of work, a key of STAGES, such as "majority_train".
    """
    return source_code.digest(STAGES[stage].sources, STAGES[stage].packages)


def settings_behind(table: str, settings: Mapping[str, Any]) -> Any:
    """The section of `settings`, all of config.yaml as dictionaries, that the table depends on; None if it is empty."""
    found = settings
    for key in STAGES[TABLES[table]].section.split("."):
        found = found.get(key) or {}
    return found or None

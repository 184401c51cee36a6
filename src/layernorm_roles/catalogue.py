"""The stages of a reproduction with the code behind each, and its Parquet tables: each is named here, once.

The columns of the tables are in schemas.csv. Rules, plan files, collection, claims and pages are made from this
catalogue.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from layernorm_roles import rooms


class Stage(NamedTuple):
    """A kind of job, with the code and packages behind its results."""

    rooms: tuple[str, ...]
    """Folders and files of this package whose code makes the results; an edit of one makes the stage again."""
    packages: tuple[str, ...] = ()
    """Installed packages that compute the numbers; another version makes the stage again."""


_GROUND = ("files.py", "provenance.py", "random_streams.py", "schemas.csv", "schemas.py", "store.py")
_TRAINED = ("checkpoint.py", "divergence.py", "gpu", "optimiser.py")
_NETWORKS = ("compiling.py", "elementary.py", "norms.py", "variants.py", *_TRAINED)
_KEYS = ("compiling.py", "heads", "ones_direction.py", "selectability", "slices.py")
_STATEMENT = (*_GROUND, *_NETWORKS, "settings/statements.py", "statements")
_EVIDENCE = (*_GROUND, "evidence/analysis", "evidence/legends.py", "gaussian_keys.py", "variants.py")
_SHOWN = (
    *_EVIDENCE,
    "evidence/claims",
    "evidence/draw.py",
    "evidence/figures",
    "evidence/tables",
    "shown.py",
    "shown.yaml",
)
_TORCH = ("numba", "numpy", "torch")
_DRAWN = ("matplotlib", "numpy", "pandas", "pillow", "scipy", "seaborn")

STAGES = {
    "download": Stage((*_GROUND, "settings/text.py", "text"), ("datasets",)),
    "text": Stage((*_GROUND, "settings/text.py", "text"), ("mwparserfromhell", "numpy", "tokenizers")),
    "majority_data": Stage(
        (*_GROUND, "majority/data.py", "partitions.py", "settings/majority.py"),
        ("numpy",),
    ),
    "majority": Stage((*_GROUND, *_NETWORKS, "majority", "partitions.py", "settings/majority.py"), _TORCH),
    "random_keys": Stage(
        (*_GROUND, *_NETWORKS, *_KEYS, "gaussian_keys.py", "random_keys", "settings/random_keys.py"),
        (*_TORCH, "scipy"),
    ),
    "language_model": Stage(
        (
            *_GROUND,
            *_NETWORKS,
            "heads/layer.py",
            "language_model",
            "settings/language_model.py",
            "settings/text.py",
            "slices.py",
            "text",
        ),
        _TORCH,
    ),
    "measure": Stage(
        (
            *_GROUND,
            *_NETWORKS,
            *_KEYS,
            "language_model",
            "settings/language_model.py",
            "settings/text.py",
            "text",
        ),
        _TORCH,
    ),
    "pretrained": Stage(
        (*_GROUND, *_NETWORKS, *_KEYS, "pretrained", "settings/pretrained.py", "text"),
        (*_TORCH, "transformers"),
    ),
    "geometry": Stage(_STATEMENT, _TORCH),
    "fusion": Stage(_STATEMENT, _TORCH),
    "placement": Stage((*_STATEMENT, "text"), _TORCH),
    "batch_dependence": Stage(_STATEMENT, _TORCH),
    "score_scale": Stage(_STATEMENT, _TORCH),
    "tables": Stage(_GROUND),
    "claims": Stage((*_EVIDENCE, "evidence/claims"), ("numpy", "pandas", "scipy")),
    "draw": Stage(_SHOWN, _DRAWN),
    "page": Stage((*_SHOWN, "evidence/page"), _DRAWN),
    "durations": Stage(_SHOWN),
    "settings": Stage(("files.py",)),
}
"""The stages by name, in the order in which results go through them."""

_EXEMPT = {
    "says which code counts": "catalogue.py rooms.py",
    "says which jobs there are, and plan files hold what they say": "batches.py exhibits.py jobs.py planning.py",
    "writes plan files and compares them": "plan.py",
    "logs, progress, errors and warnings": "job.py memory.py",
    "names a package": "__init__.py evidence/__init__.py settings/__init__.py",
    "checks what config.yaml says, and plan files hold what it is then": "settings/__main__.py settings/base.py "
    "settings/json_schema.py settings/loading.py settings/reproduction.py settings/yaml_files.py",
}
EXEMPT = {file: reason for reason, files in _EXEMPT.items() for file in files.split()}
"""Files and folders through which no number passes, each with the reason why an edit of one makes nothing again."""


EVIDENCE = ("claims", "draw", "page", "durations", "settings")
"""The stages that show results and compute none, in which a reproduction ends."""

_TABLES = {
    "majority": "majority_metrics majority_vectors",
    "random_keys": "random_keys random_keys_precision gaussian_law",
    "language_model": "language_model_metrics language_model_attention",
    "measure": "key_selectability sentence_tokens language_model_ones_share language_model_ceilings",
    "geometry": "geometry geometry_cloud",
    "fusion": "fusion",
    "placement": "placement untrained_gradients position_probe",
    "batch_dependence": "batch_dependence",
    "score_scale": "score_scale",
    "pretrained": "pretrained_keys attention_ceilings token_ceilings ones_share projection_shift",
}
TABLES = {table: stage for stage, tables in _TABLES.items() for table in tables.split()}
"""The stage whose jobs write each table of results; the tables claims and comparisons, made from them, are not here."""


def code(stage: str) -> str:
    """The hash of the code and packages behind a stage."""
    return rooms.digest(STAGES[stage].rooms, STAGES[stage].packages)


def settings_behind(table: str, settings: Mapping[str, Any]) -> Any:
    """The settings behind a table, of those of a reproduction as plain dictionaries; None if they lack the section."""
    section = "language_model" if TABLES[table] == "measure" else TABLES[table]
    return settings.get(section) or settings.get("statements", {}).get(section) or None

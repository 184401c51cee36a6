"""The parts of the page, and where its numbers come from."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from layernorm_roles.evidence.figures import registry as figures
from layernorm_roles.evidence.tables.structure import Column, Grid

OVERVIEW = ("claims_forest",)
"""The figures that stand below the table of verdicts."""


class Part(NamedTuple):
    """A part of the page: claims with their evidence, then what belongs to none of the claims."""

    name: str
    """The part that a claim names."""
    title: str
    introduction: str
    categories: tuple[str, ...]
    """Categories of the figures that belong to the part."""
    tables: tuple[str, ...] = ()
    """Readable tables at the end of the part."""


PARTS = (
    Part(
        "projection",
        "Projection",
        "The majority experiment: which token is the most frequent of a sequence? One attention layer, with the norm "
        "before attention varied. “Without projection” is tested twice: as the released code computes it, which also "
        "divides the attention input by its dimension, and as the text defines it.",
        (figures.MAJORITY,),
    ),
    Part(
        "scaling",
        "Scaling",
        "A key is unselectable if no query gives it the highest score: it lies in the convex hull of the others. "
        "Every such verdict carries a certificate. Random keys first, then language models trained with and without "
        "the scaling, each beside its untrained self, then a pretrained model, and how much attention its keys can get.",
        (figures.RANDOM_KEYS, figures.LANGUAGE_MODELS, figures.PRETRAINED),
    ),
    Part(
        "documents",
        "Other documents",
        "An essay on the geometry of LayerNorm, a question about the output projection W_O, and lecture notes on "
        "transformers: what they state, measured.",
        (figures.STATEMENTS,),
    ),
)

Sources = Mapping[str, Mapping[str, str]]
"""Provenance of the Parquet files, by the name of their table."""


def common(sources: Sources, key: str) -> str:
    """The different values of `key` in the provenance of all files, joined by commas."""
    return ", ".join(sorted({source[key] for source in sources.values() if source.get(key)}))


def pretty(config: str) -> str:
    """The configuration that a file carries as indented JSON; any other text as it is."""
    try:
        return json.dumps(json.loads(config), indent=2, ensure_ascii=False)
    except ValueError:
        return config


def provenance(sources: Sources) -> Grid:
    """A row for each Parquet file: what made it."""
    columns = {
        "version": "version",
        "commit": "git_commit",
        "torch": "torch",
        "Python": "python",
        "device": "device",
        "settings (SHA-256)": "config_sha256",
    }
    short = ("git_commit", "config_sha256")
    rows = [
        [
            f"{name}.parquet",
            *(source.get(key, "")[: 10 if key in short else None] for key in columns.values()),
        ]
        for name, source in sources.items()
    ]
    return Grid(tuple(map(Column, ("table", *columns))), rows)

"""Measures what documents other than the paper say about LayerNorm, and writes the tables."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from layernorm_roles import store
from layernorm_roles.plan import Plan
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.statements import Statements
from layernorm_roles.statements import fusion, geometry, networks, random_vectors
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.text.token_streams import read_stream

STREAMS = {
    "geometry": (Stream.GEOMETRY, Stream.GEOMETRY_CLOUD),
    "fusion": (Stream.FUSION,),
    "placement": (Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE),
    "batch_dependence": (Stream.BATCH_DEPENDENCE,),
    "score_scale": (Stream.SCORE_SCALE,),
}
"""By experiment, the random streams that it draws from; placement draws weights with torch's generator as well."""


def write(plan: Plan, inputs: Mapping[str, Any], out: Mapping[str, str | Path]) -> None:
    """Do the experiment that is the plan's stage, and write its tables to the Parquet files `out`, by their names.

    Of `inputs`, fusion reads `samples`, the activations of trained layers, and placement `manifest`, the manifest.json
    of a text. Raises ValueError if one of these is missing, damaged, too short or made from another plan.
    """
    torch.set_num_threads(1)  # processes share the cores, not the threads of one
    metadata = provenance(plan, "cpu", *STREAMS[plan["stage"]], torch=plan["stage"] == "placement")
    for name, table in tables(plan, inputs).items():
        store.write(table, name, out[name], metadata)


def tables(plan: Plan, inputs: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The tables of the experiment that is the plan's stage, by name."""
    section = Statements.model_fields[plan["stage"]].annotation
    settings = section.model_validate(plan["settings"])
    match plan["stage"]:
        case "geometry":
            seed = plan["seed"]
            return {"geometry": geometry.measure(settings, seed), "geometry_cloud": geometry.cloud(seed)}
        case "fusion":
            samples = zip(inputs["samples"], plan["made_by"].values(), strict=True)
            random = fusion.random_blocks(settings.d_model, plan["seeds"])
            return {"fusion": fusion.measure(chain(random, fusion.trained_blocks(samples)))}
        case "placement":
            text = PreparedText(Path(inputs["manifest"]).parent)
            text.content_hash()  # raises an error if the token stream is of another text
            # Any vocabulary will do: rarer tokens become one.
            tokens = read_stream(text.tokens("training"), 2**32, settings.context_length)
            seeds = plan["seeds"], plan["untrained_seeds"]
            return networks.measure(settings, tokens, plan["placement"], *seeds)
        case "batch_dependence":
            return {"batch_dependence": random_vectors.batch_dependence(settings, plan["seeds"])}
        case _:
            return {"score_scale": random_vectors.score_scale(settings, plan["seeds"])}

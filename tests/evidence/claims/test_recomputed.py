"""The number of every claim, computed a second time from the Parquet files by a few lines that share no code.

The functions stand in recomputed_projection.py, recomputed_language_model.py, recomputed_pretrained.py and
recomputed_documents.py; each takes the tables of a reproduction by name. The numbers are those of the kept
reproduction.
"""

import ast
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import plain
import pytest
import recomputed_documents
import recomputed_language_model
import recomputed_pretrained
import recomputed_projection
import worlds
from judging import CLAIMS
from kept import TABLES

from layernorm_roles.evidence import claims
from layernorm_roles.schemas import SCHEMAS

MODULES = (
    recomputed_projection,
    recomputed_language_model,
    recomputed_pretrained,
    recomputed_documents,
)
RECOMPUTED = {name: function for module in MODULES for name, function in module.RECOMPUTED.items()}
SITES = ("before_norm", "after_norm", "head")


def test_every_claim_is_recomputed_once():
    assert sorted(RECOMPUTED) == sorted(CLAIMS)
    assert len(RECOMPUTED) == sum(len(module.RECOMPUTED) for module in MODULES)


def test_the_second_computation_shares_no_code_with_the_first():
    for module in (*MODULES, plain):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("layernorm_roles") for name in names), module.__name__


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_both_computations_agree_on_the_kept_tables(name):
    row = claims.row(CLAIMS[name], {table: TABLES[table] for table in CLAIMS[name].tables})
    if pd.isna(row["measured"]):
        pytest.skip(f"not measured: {row['reason']}")
    assert RECOMPUTED[name](TABLES) == pytest.approx(row["measured"], rel=1e-6, abs=1e-9)


@cache
def world() -> dict[str, pd.DataFrame]:
    return worlds.majority_task()


@pytest.mark.parametrize("name", sorted(recomputed_projection.RECOMPUTED))
def test_both_computations_agree_on_an_artificial_majority_task(name):
    row = claims.row(CLAIMS[name], world())
    assert recomputed_projection.RECOMPUTED[name](world()) == pytest.approx(row["measured"], rel=1e-9)


MODELS = {"gpt": (8, 2), "gpt_bytes": (64, 16), "bert": (8, 2)}
"""Language models, each with the dimensions of its keys before the heads and in a head."""
LADDER = {"bytes_heads_8": 8, "bytes_heads_16": 4, "bytes_heads_32": 2}
"""Models that differ from gpt_bytes in the dimensions of a head."""


@cache
def language_models(number: int) -> dict[str, pd.DataFrame]:
    """Random keys and language models, whose truth is drawn anew for each number."""
    rng = np.random.default_rng(number)

    def draw(*values, shares=None):
        return values[rng.choice(len(values), p=shares)]

    def share():
        return (
            tuple(draw(0.0, 0.004, 0.02, 0.2, 0.5) for _ in range(4))
            if rng.random() < 0.5
            else draw(0.0, 0.6)
        )

    losses, keys = [], []
    for model in ("gpt_rates", "bytes_rates", "gpt_lengths", "bytes_lengths"):
        curves = {
            "layernorm": draw((0.1, 0.0, 0.3, 1.5), (0.0, 0.1, 0.3, 1.5), shares=[0.8, 0.2]),
            "projection": (0.25, draw(-0.05, 0.0, 0.01, 0.06, 0.2), draw(0.3, 0.6), 1.5),
        }
        curves["projection_scalar"] = (0.2, draw(0.0, 0.05), 0.3, 0.7)
        table = worlds.losses_by_rate(
            model,
            curves,
            (0.001, 0.003, 0.01, 0.03),
            (1000, 4000, 16000) if model.endswith("lengths") else (1000,),
            closes=draw(-0.05, 0.0, 0.01, 0.1),
            seeds=int(rng.integers(3, 6)),
            spread=draw(0.001, 0.02),
        )
        losses.append(table)
    for model, dimensions in MODELS.items():
        others = ("scale", "none", "projected_qk", "layernorm_qk", "layernorm_shrunk")
        losses.append(
            worlds.losses(
                draw(-0.1, 0.0, 0.01, 0.05, 0.1),
                seeds=int(rng.integers(2, 6)),
                spread=draw(0.001, 0.02),
                model=model,
                worth=draw(0.03, 0.2, 0.5),
                unigram=draw(9.0, 6.0, shares=[0.8, 0.2]),
                more={variant: draw(-0.1, -0.03, 0.0, 0.1) for variant in others},
            )
        )
        places = list(
            product(("layernorm", "projection", "none", "layernorm_qk"), ("initial", "final"), SITES)
        )
        shares = {place: share() for place in places}
        shares |= {place: 0.0 for place in places if place[0] == "layernorm" and place[2] == "after_norm"}
        undecided = {place: draw(0.0, 0.005, 0.03, shares=[0.8, 0.1, 0.1]) for place in places}
        for texts in ("long", "sentences"):
            keys.append(worlds.keys(shares, model, texts, 3, undecided, dimensions))
    for model, d in LADDER.items():
        law = plain.gaussian(1000, d) / 100
        head = ("layernorm", "final", "head")
        shares = {head: law * draw(0.95, 0.9, 0.8, 0.3), ("layernorm", "final", "after_norm"): 0.0}
        keys.append(worlds.keys(shares, model, "long", 3, {head: draw(0.0, 0.005)}, (64, d)))
        table = worlds.losses(0.0, seeds=int(rng.integers(2, 6)), model=model, unigram=draw(9.0, 9.0, 6.0))
        losses.append(table[table.variant == "layernorm"])
    most = {"none": 1.0, "layernorm": 0.02, "projection": 1.0, "scale": 0.2}
    norms = {norm: (draw(0.0, share), draw(0.0, 0.02)) for norm, share in most.items()}
    random = worlds.random_keys(norms).assign(n_borderline=draw(0, 3), mean_unselectable=0.0)
    return {
        "language_model_metrics": pd.concat(losses),
        "key_selectability": pd.concat(keys),
        "random_keys": random.assign(expected_unselectable=np.nan),
    }


@pytest.mark.parametrize("number", range(3))
def test_both_computations_agree_on_artificial_language_models(number):
    tables = language_models(number)
    for name, number_again in recomputed_language_model.RECOMPUTED.items():
        row = claims.row(CLAIMS[name], tables)
        if np.isfinite(row["measured"]):
            assert number_again(tables) == pytest.approx(row["measured"], rel=1e-9), name


def test_the_artificial_language_models_get_many_verdicts():
    judged = {
        (name, claims.row(CLAIMS[name], language_models(number))["verdict"])
        for number in range(3)
        for name in ("loss_gap_best_rate", "loss_gap_lengths", "table_1", "heads_qk_norm", "head_widths")
    }
    assert len(judged) >= 11
    assert len({verdict for name, verdict in judged if name == "loss_gap_best_rate"}) >= 2


@pytest.mark.parametrize("name", sorted(recomputed_pretrained.RECOMPUTED))
def test_both_computations_agree_on_an_artificial_pretrained_model(name):
    shares = {("head", 32): (0.1, 0.3), ("head_cut", 2): 0.9}
    others = worlds.pretrained_keys({("head", 32): 0.7}, model="other")
    below = {"as used": (0.1, 0.25), "without norm": 0.4}
    tables = {
        "pretrained_keys": pd.concat([worlds.pretrained_keys(shares, undecided=0.1), others]),
        "gaussian_law": worlds.gaussian_law(),
        "attention_ceilings": worlds.attention_ceilings(below, received=0.2, unknown=0.05),
        "ones_share": pd.concat([worlds.ones_share(0.3, 0.8), worlds.ones_share(0.6, 2, model="other")]),
        "projection_shift": worlds.projection_shift(0.1),
    }
    row = claims.row(CLAIMS[name], tables)
    tables["pairs"] = worlds.ceiling_pairs(below, received=0.2, unknown=0.05)
    assert row["measured"] > 0
    assert recomputed_pretrained.RECOMPUTED[name](tables) == pytest.approx(row["measured"], rel=1e-9)


def test_the_artificial_world_has_columns_of_the_schema_alone():
    for name, table in world().items():
        assert list(table.columns) == SCHEMAS[name].names

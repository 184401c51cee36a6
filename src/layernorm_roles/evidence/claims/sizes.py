"""Sizes of the run at hand beside those of the paper: the part of a claim's setting that differs between runs."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import span
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims.claim import Tables


def majority(experiment: str, tables: Tables) -> str:
    """Width, learning rate, steps and runs of an experiment of the majority task; empty if the tables lack it.

    The runs are those of majority_metrics or, where a reproduction has none, of majority_vectors.
    """
    empty = pd.DataFrame(columns=["experiment"])
    metrics, vectors = (
        table[table.experiment == experiment]
        for table in (tables.get("majority_metrics", empty), tables.get("majority_vectors", empty))
    )
    table = vectors if metrics.empty else metrics
    if table.empty:
        return ""
    rate = table.base_learning_rate
    rates = f"{rate.min():g}" + (f" to {rate.max():g}" if rate.nunique() > 1 else "")
    steps = "" if metrics.empty else f"{metrics.step.max():,} steps, "
    runs = span(table.groupby("variant").seed.nunique())
    return (
        f"d = {span(table.d_model)}, learning rate {rates}; {steps}{runs} runs of each variant "
        f"(the paper: {_paper_runs()} runs)."
    )


def random_keys(tables: Tables) -> str:
    """Numbers of keys, dimensions and matrices; empty if the tables lack the random keys."""
    if "random_keys" not in tables:
        return ""
    table, paper = tables["random_keys"], reported()["random_keys"]["sizes"]
    here = f"n = {span(table.n)}, d = {span(table.d)}, {span(table.matrices)} matrices for each"
    there = "n = {} to {}, d = {} to {}, {} matrices for each".format(
        *paper["n"], *paper["d"], paper["matrices"]
    )
    return f"{here}, as in the paper." if here == there else f"{here} (the paper: {there})."


def losses(model: str, tables: Tables) -> str:
    """Width, steps and tokens of a step of a language model; empty if the tables lack its losses."""
    metrics, paper = tables.get("language_model_metrics"), reported()["language_model"]["sizes"]
    if metrics is None or not (metrics.model == model).any():
        return ""
    metrics = metrics[metrics.model == model]
    last = metrics.step.max()
    tokens = metrics.tokens[metrics.step == last].max() / max(last, 1)
    text = (
        f"{last:,} steps of {tokens:,.0f} tokens, {span(metrics.groupby('variant').seed.nunique())} runs of each "
        "variant"
    )
    if model == "bert":
        return f"{text}."
    return (
        f"{_width(model, tables)}{text} (the paper: d_model = {paper['d_model']}, {paper['steps']:,} steps of "
        f"{paper['tokens_per_step']:,} tokens, one run)."
    )


def keys(model: str, tables: Tables, texts: str) -> str:
    """Training and contexts behind the tested keys; empty if the tables lack them."""
    table = tables.get("key_selectability", pd.DataFrame(columns=["model", "texts"]))
    table = table[(table.model == model) & (table.texts == texts)]
    if table.empty:
        return ""
    contexts = f"Keys of {table.context.nunique()} contexts of {span(table.n_keys)} tokens."
    return f"{losses(model, tables)} {contexts}".strip()


def pretrained(model: str, tables: Tables) -> str:
    """Documents, their keys, and the heads of a pretrained model; empty if the tables lack it."""
    if "pretrained_keys" in tables:
        table = tables["pretrained_keys"]
        table = table[(table.model == model) & table["head"].notna()]
        heads = table["head"].nunique()
    else:
        table = tables.get("attention_ceilings", pd.DataFrame(columns=["model", "layer", "pairs", "n_keys"]))
        table = table[(table.model == model) & table.layer.notna()]
        heads = (table.pairs // table.n_keys).max()
    if table.empty:
        return ""
    whole = table[table.dimensions == table.dimensions.max()]
    return (
        f"{model}: {table.context.nunique()} documents of {span(whole.n_keys)} tokens, {whole.layer.nunique()} layers "
        f"of {heads} heads of {span(whole.dimensions)} dimensions."
    )


def _width(model: str, tables: Tables) -> str:
    """The width of the residual stream, from the keys at the attention input; empty if they were not tested."""
    table = tables.get("key_selectability", pd.DataFrame(columns=["model", "site"]))
    table = table[(table.model == model) & (table.site == "after_norm")]
    return f"d_model = {table.dimensions.iloc[0]}; " if len(table) else ""


def _paper_runs() -> int:
    return reported()["majority"]["sizes"]["runs"]


SIZES: dict[str, Callable[..., str]] = {
    "none": lambda *_: "",
    "majority": majority,
    "random_keys": random_keys,
    "losses": losses,
    "long": partial(keys, texts="long"),
    "sentences": partial(keys, texts="sentences"),
    "pretrained": pretrained,
}
"""The functions that describe sizes in words, by the name that an entry of the YAML files gives under `sizes`."""

"""Sizes of the run at hand beside those of the paper: the part of a claim's setting that differs between runs."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims.rules import Tables


def majority(experiment: str, tables: Tables) -> str:
    """Dimension, steps and runs of an experiment of the majority task; empty if the tables lack it."""
    metrics, vectors = tables.get("majority_metrics"), tables.get("majority_vectors")
    if metrics is None or not (metrics.experiment == experiment).any():
        return ""
    metrics = metrics[metrics.experiment == experiment]
    runs = metrics.groupby("variant").seed.nunique()
    text = (
        f"{metrics.step.max():,} steps, {_span(runs)} runs of each variant (the paper: {_paper_runs()} runs)."
    )
    if vectors is not None and (vectors.experiment == experiment).any():
        text = f"d = {len(vectors.vector[vectors.experiment == experiment].iloc[0])}; {text}"
    return text


def random_keys(tables: Tables) -> str:
    """Numbers of keys, dimensions and matrices; empty if the tables lack the random keys."""
    if "random_keys" not in tables:
        return ""
    table, paper = tables["random_keys"], reported()["random_keys"]["sizes"]
    here = f"n = {_span(table.n)}, d = {_span(table.d)}, {_span(table.matrices)} matrices for each"
    there = "n = {} to {}, d = {} to {}, {} matrices for each".format(
        *paper["n"], *paper["d"], paper["matrices"]
    )
    return f"{here}, as in the paper." if here == there else f"{here} (the paper: {there})."


def losses(tables: Tables) -> str:
    """Steps and tokens of a step of the language models; empty if the tables lack their losses."""
    metrics, paper = tables.get("language_model_metrics"), reported()["language_model"]["sizes"]
    if metrics is None:
        return ""
    last = metrics.step.max()
    tokens = metrics.tokens[metrics.step == last].max() / max(last, 1)
    return (
        f"{last:,} steps of {tokens:,.0f} tokens, {_span(metrics.groupby('variant').seed.nunique())} runs of each "
        f"variant (the paper: {paper['steps']:,} steps of {paper['tokens_per_step']:,} tokens, one run)."
    )


def keys(model: str, texts: str, tables: Tables) -> str:
    """Training and contexts behind the tested keys; empty if the tables lack them."""
    table = tables.get("key_selectability", pd.DataFrame(columns=["model", "texts"]))
    table = table[(table.model == model) & (table.texts == texts)]
    if table.empty:
        return ""
    contexts = f"Keys of {table.context.nunique()} contexts of {_span(table.n_keys)} tokens."
    return f"{losses(tables)} {contexts}".strip() if model == "gpt" else contexts


def _span(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _paper_runs() -> int:
    return reported()["majority"]["sizes"]["runs"]


SIZES: dict[str, Callable[..., str]] = {
    "none": lambda _: "",
    "majority": majority,
    "random_keys": random_keys,
    "losses": losses,
    "long": partial(keys, "gpt", "long"),
    "sentences": partial(keys, "gpt", "sentences"),
    "bert": partial(keys, "bert", "sentences"),
}
"""By the name that an entry of claims.yaml gives under `sizes`; `majority` takes the name of an experiment first."""

"""Sentences on the sizes of a reproduction beside those of the paper, for the end of a claim's setting.

Each function takes the tables, and the experiment or model that the claim is about, and returns a sentence, which is
empty where the tables do not tell.
"""

from functools import partial

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import span
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims.testing import Tables, sentences


def _rows(tables: Tables, table: str, **where: str) -> pd.DataFrame:
    """Return the rows of a table with the values `where` says in the columns it names; none if there is no table."""
    rows = tables.get(table, pd.DataFrame(columns=[*where]))
    return rows[(rows[[*where]] == pd.Series(where)).all(axis=1)]


def majority(tables: Tables, experiment: str) -> str:
    """Return a sentence on an experiment of the majority task: its width, learning rate, steps and number of runs.

    The sentence is empty if the table majority_metrics has no rows of the experiment.
    """
    metrics = _rows(tables, "majority_metrics", experiment=experiment)
    if metrics.empty:
        return ""
    sizes = f"d = {span(metrics.d_model)}, learning rate {span(metrics.base_learning_rate, 'g')}"
    runs, paper = span(metrics.groupby("variant").seed.nunique()), reported()["majority"]["sizes"]["runs"]
    return f"{sizes}; {metrics.step.max():,} steps, {runs} runs of each variant (the paper: {paper} runs)."


def random_keys(tables: Tables, _: str | None) -> str:
    """Return a sentence on the sizes of the random matrices of keys, beside those of the paper.

    The sizes are numbers of keys, dimensions and matrices. Without the table random_keys the sentence is empty.
    """
    if "random_keys" not in tables:
        return ""
    table, paper = tables["random_keys"], reported()["random_keys"]["sizes"]
    sentence = "n = {}, d = {}, {} matrices for each".format
    here = sentence(span(table.n), span(table.d), span(table.matrices))
    there = sentence(*("{} to {}".format(*paper[ends]) for ends in "nd"), paper["matrices"])
    return f"{here}, as in the paper." if here == there else f"{here} (the paper: {there})."


def losses(tables: Tables, model: str) -> str:
    """Return a sentence on a language model's width, steps, tokens per step and runs, beside those of the paper.

    The sentence is empty if the table language_model_metrics has no rows of the model.
    """
    metrics = _rows(tables, "language_model_metrics", model=model)
    if metrics.empty:
        return ""
    last, runs = metrics.step.max(), span(metrics.groupby("variant").seed.nunique())
    tokens = metrics.tokens[metrics.step == last].max() / max(last, 1)
    inputs = _rows(tables, "key_selectability", model=model, site="after_norm")
    width = f"d_model = {inputs.dimensions.iloc[0]}; " if len(inputs) else ""
    there = "d_model = {d_model}, {steps:,} steps of {tokens_per_step:,} tokens, one run"
    there = there.format(**reported()["language_model"]["sizes"])
    return f"{width}{last:,} steps of {tokens:,.0f} tokens, {runs} runs of each variant (the paper: {there})."


def keys(tables: Tables, model: str, texts: str) -> str:
    """Return sentences on a language model's training, and on the contexts whose keys are tested.

    `texts` is "long" or "sentences", the kind of contexts. The result is empty if no keys of such contexts were
    tested.
    """
    table = _rows(tables, "key_selectability", model=model, texts=texts)
    if table.empty:
        return ""
    contexts = f"Keys of {table.context.nunique()} contexts of {span(table.n_keys)} tokens."
    return sentences(losses(tables, model), contexts)


def pretrained(tables: Tables, model: str) -> str:
    """Return a sentence on the documents that a pretrained model read, and on its layers and heads.

    It has the numbers of documents, tokens, layers, heads and dimensions; it is empty if no keys were tested.
    """
    table = _rows(tables, "pretrained_keys", model=model)
    if table.empty:
        return ""
    table = table[table["head"].notna()]
    whole = table[table.dimensions == table.dimensions.max()]
    documents = f"{model}: {table.context.nunique()} documents of {span(whole.n_keys)} tokens"
    heads = f"{table['head'].nunique()} heads of {span(whole.dimensions)} dimensions"
    return f"{documents}, {whole.layer.nunique()} layers of {heads}."


long, in_sentences = (partial(keys, texts=texts) for texts in ("long", "sentences"))

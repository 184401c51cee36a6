"""Tables 1 to 4: the keys of language models that no query selects."""

from collections.abc import Mapping, Sequence

import pandas as pd

from layernorm_roles.evidence.analysis import language_model
from layernorm_roles.evidence.analysis.estimate import span
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.legends import PAPER_MODEL, label
from layernorm_roles.evidence.tables.readable import (
    SPLIT_CHARACTER,
    Part,
    Readable,
    grid,
    layered,
    ordered,
    sentence,
    token_text,
)
from layernorm_roles.evidence.tables.typography import MISSING, estimate, percent

SITES = {"before_norm": "before LayerNorm", "after_norm": "after LayerNorm"}
WEIGHTS = {"initial": "untrained", "final": "trained"}
"""What readers call the sites of keys and the checkpoints of a run, by their names in table key_selectability."""

ROWS = {"variant": ("norm", label), "site": ("keys", SITES.get), "model": ("model", str)}
"""Heading and names of values of the columns of table key_selectability by which rows of a table differ."""

LEAST_OCCURRENCES, SHOWN = 10, 20
"""Table 3 lists the first SHOWN tokens of those that occur at least LEAST_OCCURRENCES times in the sentences."""


def table_1(keys: pd.DataFrame) -> Readable:
    """Return Table 1: per cent of GPT keys at attention's input that are unselectable (key_selectability), by layer.

    For the model gpt, further rows have the percentages that the paper reports.
    """
    sites = ("after_norm", "after_norm_exact")
    frame = ordered(language_model.unselectable_shares(keys[keys.site.isin(sites)], texts="long"), "variant")
    paper, parts = reported()["language_model"]["table_1"], []
    for model, shown in frame.groupby("model", sort=False):
        main, exact = (shown[shown.site == site] for site in sites)
        parts += [
            f"{model}: keys at the attention input, by the norm before it. {_contexts(keys, model, 'long')}",
            shares_by_layer(main, "variant", paper if model == PAPER_MODEL else {}),
        ]
        if len(exact):
            parts += [f"{model}: the keys where a norm scales them, with eps = 0 instead of the model's."]
            parts += [shares_by_layer(exact, "variant")]
    return Readable(frame, parts)


def table_2(keys: pd.DataFrame) -> Readable:
    """Return Table 2: per cent of GPT keys that are unselectable before and after LayerNorm, by layer."""
    beside = keys[keys.site.isin(SITES)]
    frame = language_model.unselectable_shares(beside, texts="long", variant="layernorm")
    paper, parts = reported()["language_model"]["table_2"], []
    for model, shown in frame.groupby("model", sort=False):
        parts += [
            f"{model} with LayerNorm: keys before it and after. {_contexts(keys, model, 'long')}",
            shares_by_layer(shown, "site", paper if model == PAPER_MODEL else {}),
        ]
    return Readable(frame, parts)


def table_3(keys: pd.DataFrame, tokens: pd.DataFrame) -> Readable:
    """Return Table 3: the tokens whose keys are most often unselectable in the GPT without scaling (sentence_tokens).

    Sentences with most such tokens follow, and the shares of all tokens of sentences, from key_selectability.
    """
    model = language_model.without_scaling(tokens)
    if model.empty:
        columns = ["token", "occurrences", "initial_percent", "final_percent"]
        return Readable(pd.DataFrame(columns=columns), [])
    frame = language_model.token_shares(tokens)
    often = frame[frame.occurrences >= LEAST_OCCURRENCES * model.layer.nunique() * model.seed.nunique()]
    cells = {
        "token": lambda row: token_text(row.token),
        "occurrences × layers × seeds": "{.occurrences:,}",
        "unselectable, untrained (%)": "{.initial_percent:.1f}",
        "unselectable, trained (%)": "{.final_percent:.1f}",
    }
    marked = [sentence(pairs) for pairs in language_model.marked_sentences(tokens)]
    most = "Sentences with most unselectable tokens, which stand in ⟦ ⟧: first seed, trained, first layer."
    none = "In the first layer of the first seed no sentence has an unselectable token after training."
    examples: list[Part] = [most, marked] if marked else [none]
    of_norm = {"texts": "sentences", "site": "after_norm", "variant": "projection"}
    parts = [
        "Tokens of gpt without scaling that are unselectable most often. "
        f"{_contexts(keys, 'gpt', 'sentences')} ␣ is a space, {SPLIT_CHARACTER} a character that is split among "
        "several tokens.",
        grid(often.head(SHOWN), cells),
        *examples,
        "All tokens, by model:",
        shares_by_layer(language_model.unselectable_shares(keys, **of_norm), "model"),
    ]
    return Readable(frame, parts)


def table_4(keys: pd.DataFrame) -> Readable:
    """Return Table 4: per cent of BERT's keys that are unselectable with its LayerNorms and without any, by layer."""
    frame = ordered(language_model.unselectable_shares(keys, model="bert", site="after_norm"), "variant")
    title = f"Keys of BERT with its LayerNorms, and with every one removed. {_contexts(keys, 'bert', 'sentences')}"
    return Readable(frame, [title, shares_by_layer(frame, "variant")])


def shares_by_layer(
    shares: pd.DataFrame, column: str, paper: Mapping[str, Sequence[float]] = {}
) -> pd.DataFrame:
    """Return percentages of unselectable keys as a table of texts with a column for each layer.

    `shares` is a result of `analysis.language_model.unselectable_shares`. Each value of its column `column` (variant,
    site or model) has a row for untrained and one for trained models, and a third row for the percentages by layer that
    `paper` has for the value, if any. The last column has the percentage of undecided keys.
    """
    heading, name_of = ROWS[column]
    rows = []
    for value, part in shares.groupby(column, sort=False):
        name = name_of(value)
        for checkpoint, weights in WEIGHTS.items():
            group = part[part.checkpoint == checkpoint]
            seeds = str(group.seeds.iloc[0]) if len(group) else MISSING
            cells = {row.layer: _share(row) for row in group.itertuples()}
            rows.append(([name, weights, seeds], cells, [percent(group.borderline_percent.mean())]))
        if value in paper:
            cells = {layer: percent(reported) for layer, reported in enumerate(paper[value], start=1)}
            rows.append(([name, "paper, trained", MISSING], cells, [MISSING]))
    return layered([heading, "weights", "seeds"], rows, ["undecided"], texts=2)


def _contexts(keys: pd.DataFrame, model: str, texts: str) -> str:
    lengths = keys.n_keys[(keys.model == model) & (keys.texts == texts)]
    words = {"long": "Contexts", "sentences": "Sentences"}[texts]
    return f"{words} of {span(lengths, '')} tokens." if len(lengths) else ""


def _share(row) -> str:
    low, high = max(row.low, 0.0), min(row.high, 100.0)
    return "0" if low == high == 0 else estimate(row.percent, low, high, percent)

"""Tables 1 to 4: which keys of the language models no query selects."""

from collections.abc import Mapping, Sequence

import pandas as pd

from layernorm_roles.evidence.analysis import language_model
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.evidence.tables.structure import (
    MISSING,
    SPLIT_CHARACTER,
    Column,
    Grid,
    Part,
    Readable,
    Sentences,
    grid,
    sentence,
    token_text,
)

NOTE = (
    "Per cent of keys that no query selects, mean over contexts and seeds, with the 95 % interval over both "
    "(one seed: over contexts). Every verdict carries a certificate."
)
NO_MODEL = "This reproduction has no such model."
SITES = {"before_norm": "before LayerNorm", "after_norm": "after LayerNorm"}

FEWEST, SHOWN = 10, 20
"""Table 3 lists the first SHOWN tokens of those that occur at least FEWEST times in the sentences."""


def table_1(keys: pd.DataFrame) -> Readable:
    """Unselectable keys at the attention input of the GPT for every variant of the norm, from key_selectability."""
    sites = ("after_norm", "after_norm_exact")
    frame = _by_legend(
        language_model.unselectable_shares(keys[keys.site.isin(sites)], model="gpt", texts="long")
    )
    main, exact = (frame[frame.site == site] for site in sites)
    parts = [
        f"Keys at the attention input, by the norm before it. {_contexts(keys, 'gpt', 'long')}",
        shares_by_layer(main, "variant", LEGENDS, reported()["language_model"]["table_1"]),
    ]
    if len(exact):
        parts += ["The keys where a norm scales them, with eps = 0 instead of the model's:"]
        parts += [shares_by_layer(exact, "variant", LEGENDS)]
    return Readable(frame, [*parts, NOTE])


def table_2(keys: pd.DataFrame) -> Readable:
    """Unselectable keys before and after the norm of the GPT with LayerNorm, from key_selectability."""
    beside = keys[keys.site.isin(SITES)]
    frame = language_model.unselectable_shares(beside, model="gpt", texts="long", variant="layernorm")
    title = f"The model with LayerNorm: keys before it and after. {_contexts(keys, 'gpt', 'long')}"
    paper = reported()["language_model"]["table_2"]
    return Readable(frame, [title, shares_by_layer(frame, "site", SITES, paper), NOTE])


def table_3(keys: pd.DataFrame, tokens: pd.DataFrame) -> Readable:
    """Unselectable tokens of the GPT without scaling, and sentences of them, from the tables of keys and tokens."""
    model = language_model.without_scaling(tokens)
    if model.empty:
        columns = ["token", "occurrences", "initial_percent", "final_percent"]
        return Readable(pd.DataFrame(columns=columns), [NO_MODEL])
    frame = language_model.token_shares(tokens)
    often = frame[frame.occurrences >= FEWEST * model.layer.nunique() * model.seed.nunique()]
    columns = {
        Column("token"): lambda row: token_text(row.token),
        Column("occurrences × layers × seeds", right=True): lambda row: f"{row.occurrences:,}",
        Column("unselectable, initial (%)", right=True): lambda row: f"{row.initial_percent:.1f}",
        Column("unselectable, final (%)", right=True): lambda row: f"{row.final_percent:.1f}",
    }
    marked = [sentence(pairs) for pairs in language_model.marked_sentences(tokens)]
    if marked:
        words = "Sentences with most unselectable tokens, which are marked: first seed, trained, first layer."
        examples = [words, Sentences(marked)]
    else:
        examples = [
            "In the first layer of the first seed no sentence has an unselectable token after training."
        ]
    all_tokens = language_model.unselectable_shares(
        keys, model="gpt", texts="sentences", site="after_norm", variant="projection"
    )
    parts = [
        "Tokens of the model without scaling that are unselectable most often. "
        f"{_contexts(keys, 'gpt', 'sentences')} ␣ is a space, {SPLIT_CHARACTER} a character that is split among "
        "several tokens.",
        grid(often.head(SHOWN).itertuples(), columns),
        *examples,
        "All tokens:",
        shares_by_layer(all_tokens, "variant", LEGENDS),
        NOTE,
    ]
    return Readable(frame, parts)


def table_4(keys: pd.DataFrame) -> Readable:
    """Unselectable keys of a BERT with its LayerNorms and without any, from key_selectability."""
    frame = _by_legend(language_model.unselectable_shares(keys, model="bert", site="after_norm"))
    title = f"Keys of BERT with its LayerNorms, and with every one removed. {_contexts(keys, 'bert', 'sentences')}"
    return Readable(frame, [title, shares_by_layer(frame, "variant", LEGENDS), NOTE])


def shares_by_layer(
    shares: pd.DataFrame,
    column: str,
    names: Mapping[str, str],
    paper: Mapping[str, Sequence[float]] | None = None,
) -> Part:
    """A column for each layer; for each value of `column` a row before training, one after, and one of the paper.

    `shares` is the result of `unselectable_shares`, `names` what a reader calls the values, `paper` maps a value to
    the per cent that the paper reports for each layer.
    """
    if shares.empty:
        return NO_MODEL
    reports = {value: dict(enumerate(per_cent, start=1)) for value, per_cent in (paper or {}).items()}
    layers = sorted(set(shares.layer).union(*reports.values()))
    rows = []
    for value, part in shares.groupby(column, sort=False):
        name = names.get(value, value)
        for checkpoint in language_model.CHECKPOINTS:
            group = part[part.checkpoint == checkpoint]
            cells = {row.layer: _share(row) for row in group.itertuples()}
            seeds = str(group.seeds.iloc[0]) if cells else MISSING
            rows.append([name, checkpoint, seeds, *(cells.get(layer, MISSING) for layer in layers)])
        if value in reports:
            cells = {layer: _percent(per_cent) for layer, per_cent in reports[value].items()}
            rows.append([name, "paper, trained", MISSING, *(cells.get(layer, MISSING) for layer in layers)])
    columns = [
        Column("norm" if column == "variant" else "keys"),
        Column("weights"),
        Column("seeds", right=True),
    ]
    return Grid((*columns, *(Column(f"layer {layer}", right=True) for layer in layers)), rows)


def _contexts(keys: pd.DataFrame, model: str, texts: str) -> str:
    lengths = keys.n_keys[(keys.model == model) & (keys.texts == texts)]
    words = {"long": "Contexts", "sentences": "Sentences"}[texts]
    return f"{words} of {lengths.min()} to {lengths.max()} tokens." if len(lengths) else ""


def _by_legend(shares: pd.DataFrame) -> pd.DataFrame:
    rank = {variant: place for place, variant in enumerate(legend_order(shares.variant))}
    return shares.sort_values("variant", key=lambda column: column.map(rank), kind="stable")


def _share(row) -> str:
    low, high = max(row.low, 0.0), min(row.high, 100.0)
    return "0" if low == high == 0 else f"{_percent(row.percent)} [{_percent(low)}, {_percent(high)}]"


def _percent(value: float | int) -> str:
    """One decimal, or one digit of a small share, so that only a share of zero looks like none."""
    return "0" if value == 0 else f"{value:.1f}" if value >= 0.05 else f"{value:.1g}"

"""The language models: Tables 1 to 4 on the keys that no query selects, and baselines of the losses."""

from collections.abc import Mapping, Sequence

import pandas as pd

from layernorm_roles.evidence.analysis import language_model
from layernorm_roles.evidence.analysis.estimate import span
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims.rules import TRAINS
from layernorm_roles.evidence.legends import LEGENDS, PAPER_MODEL
from layernorm_roles.evidence.tables.readable import (
    NORM,
    SPLIT_CHARACTER,
    Cell,
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

ROWS = {"variant": ("norm", LEGENDS), "site": ("keys", SITES), "model": ("model", {})}
"""Heading, and names of values, of the columns of table key_selectability by which rows of a table differ."""

LEAST_OCCURRENCES, SHOWN = 10, 20
"""Table 3 lists the first SHOWN tokens of those that occur at least LEAST_OCCURRENCES times in the sentences."""


def table_1(keys: pd.DataFrame) -> Readable:
    """Return the paper's Table 1: per cent of GPT keys at attention's input that are unselectable, by layer.

    `keys` is the table key_selectability. For the model gpt, further rows have the percentages that the paper reports.
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
    """Return the paper's Table 2: per cent of GPT keys that are unselectable before and after LayerNorm, by layer.

    `keys` is the table key_selectability. For the model gpt, further rows have the percentages that the paper reports.
    """
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
    """Return the paper's Table 3: the tokens whose keys are most often unselectable in the GPT without scaling.

    `keys` is the table key_selectability, `tokens` the table sentence_tokens. Sentences with most such tokens follow.
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
    """Return the paper's Table 4: per cent of BERT's keys that are unselectable with its LayerNorms and without any.

    `keys` is the table key_selectability. There is a column for each layer.
    """
    frame = ordered(language_model.unselectable_shares(keys, model="bert", site="after_norm"), "variant")
    title = f"Keys of BERT with its LayerNorms, and with every one removed. {_contexts(keys, 'bert', 'sentences')}"
    return Readable(frame, [title, shares_by_layer(frame, "variant")])


def heads(keys: pd.DataFrame) -> Readable:
    """Return a readable table of the percentages of unselectable keys in the heads of GPTs, by variant and layer.

    `keys` is the table key_selectability. Separate tables have all keys, or only earlier keys, as a key's rivals.
    """
    in_heads = keys[keys.site.isin(["head", "head_exact"]) & (keys.texts == "long")]
    rivals = {
        False: "among all keys of the context",
        True: "among the keys before them, as a causal query meets them",
    }
    frames, parts = [], []
    for model, of_model in in_heads.groupby("model", sort=False):
        size = f"d_head = {of_model.dimensions.iloc[0]}"
        for causal, words in rivals.items():
            shares = ordered(language_model.unselectable_shares(of_model, causal=causal), "variant")
            frames.append(shares.assign(causal=causal))
            for site, shown in shares.groupby("site"):
                exact = ", QK-norm with eps = 0" if site == "head_exact" else ""
                title = f"{model} ({size}): keys in the heads{exact}, {words}. "
                parts += [title + _contexts(keys, model, "long"), shares_by_layer(shown, "variant")]
    frame = pd.concat(frames) if frames else language_model.unselectable_shares(in_heads).assign(causal=False)
    return Readable(frame, parts)


def baselines(metrics: pd.DataFrame) -> Readable:
    """Return a readable table of final validation losses of language models beside two baselines, in nats per token.

    `metrics` is the table language_model_metrics. The baselines are token frequencies and a model without attention.
    """
    frame = language_model.baselines(metrics)
    cells = {
        "model": "{.model}",
        **NORM,
        "seeds": "{.seeds}",
        "validation loss": _loss("valid_loss"),
        "unigram": _loss("unigram_loss"),
        "no attention": _loss("no_attention_loss"),
        "below unigram by": _loss("gain_over_unigram"),
        "attention is worth": _loss("worth_of_attention"),
    }
    return Readable(frame, [grid(frame, cells, texts=2)])


def _loss(column: str) -> Cell:
    """Return how a cell is made of a column of means in nats: with the mean's interval if the row has one."""

    def cell(row) -> str:
        ends = (getattr(row, column + end, float("nan")) for end in ("_low", "_high"))
        return estimate(getattr(row, column), *ends, ".3f")

    return cell


def losses_by_rate(metrics: pd.DataFrame) -> Readable:
    """Return a readable table of final losses, in nats per token, by learning rate and length of training.

    `metrics` is the table language_model_metrics, of which models with several rates or lengths are shown.
    """
    frame = language_model.losses_by_rate(metrics, TRAINS)
    frame = ordered(frame, "model", "steps", "variant", "base_learning_rate")
    cells = {
        "model": "{.model}",
        **NORM,
        "steps": "{.steps:,}",
        "learning rate": "{.base_learning_rate:g}",
        "runs": "{.runs}",
        "diverged": "{.diverged}",
        "learnt to attend": "{.learnt}",
        "training loss": _loss("train_loss"),
        "validation loss": _loss("valid_loss"),
    }
    note = (
        "Nats per token at the last step, means over the runs that did not diverge, the validation loss with its 95 % "
        f"interval. A run has learnt to attend if it gets {TRAINS:.0%} of what attention is worth to LayerNorm at "
        "its best learning rate, in the longest training. A loss over runs of which some have learnt it and others "
        "have not is a mean of two humps."
    )
    return Readable(frame, [grid(frame, cells, texts=2), note])


def shares_by_layer(
    shares: pd.DataFrame, column: str, paper: Mapping[str, Sequence[float]] = {}
) -> pd.DataFrame:
    """Return percentages of unselectable keys as a table of texts with a column for each layer.

    `shares` is a result of `analysis.language_model.unselectable_shares`. Each value of its column `column` (variant,
    site or model) has a row for untrained and one for trained models, and a third row for the percentages by layer that
    `paper` has for the value, if any. The last column has the percentage of undecided keys.
    """
    heading, names = ROWS[column]
    rows = []
    for value, part in shares.groupby(column, sort=False):
        name = names.get(value, value)
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

"""The language models: Tables 1 to 4 on the keys that no query selects, baselines of the losses, and the pilot."""

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
"""What readers call the checkpoints of a training run, by their names in tables."""

LEAST_OCCURRENCES, SHOWN = 10, 20
"""Table 3 lists the first SHOWN tokens of those that occur at least LEAST_OCCURRENCES times in the sentences."""


def table_1(keys: pd.DataFrame) -> Readable:
    """Unselectable keys at the attention input of the GPTs for every variant of the norm, from key_selectability."""
    sites = ("after_norm", "after_norm_exact")
    frame = ordered(language_model.unselectable_shares(keys[keys.site.isin(sites)], texts="long"), "variant")
    paper, parts = reported()["language_model"]["table_1"], []
    for model, shown in frame.groupby("model", sort=False):
        main, exact = (shown[shown.site == site] for site in sites)
        parts += [
            f"{model}: keys at the attention input, by the norm before it. {_contexts(keys, model, 'long')}",
            shares_by_layer(main, "variant", LEGENDS, paper if model == PAPER_MODEL else None),
        ]
        if len(exact):
            parts += [f"{model}: the keys where a norm scales them, with eps = 0 instead of the model's."]
            parts += [shares_by_layer(exact, "variant", LEGENDS)]
    return Readable(frame, parts)


def table_2(keys: pd.DataFrame) -> Readable:
    """Unselectable keys before and after the norm of the GPTs with LayerNorm, from key_selectability."""
    beside = keys[keys.site.isin(SITES)]
    frame = language_model.unselectable_shares(beside, texts="long", variant="layernorm")
    paper, parts = reported()["language_model"]["table_2"], []
    for model, shown in frame.groupby("model", sort=False):
        parts += [
            f"{model} with LayerNorm: keys before it and after. {_contexts(keys, model, 'long')}",
            shares_by_layer(shown, "site", SITES, paper if model == PAPER_MODEL else None),
        ]
    return Readable(frame, parts)


def table_3(keys: pd.DataFrame, tokens: pd.DataFrame) -> Readable:
    """Unselectable tokens of the GPT without scaling, and sentences of them, from the tables of keys and tokens."""
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
    examples: list[Part] = [
        "In the first layer of the first seed no sentence has an unselectable token after training."
    ]
    if marked := [sentence(pairs) for pairs in language_model.marked_sentences(tokens)]:
        words = (
            "Sentences with most unselectable tokens, which stand in ⟦ ⟧: first seed, trained, first layer."
        )
        examples = [words, marked]
    all_tokens = language_model.unselectable_shares(
        keys, texts="sentences", site="after_norm", variant="projection"
    )
    parts = [
        "Tokens of gpt without scaling that are unselectable most often. "
        f"{_contexts(keys, 'gpt', 'sentences')} ␣ is a space, {SPLIT_CHARACTER} a character that is split among "
        "several tokens.",
        grid(often.head(SHOWN), cells),
        *examples,
        "All tokens, by model:",
        shares_by_layer(all_tokens, "model", {}),
    ]
    return Readable(frame, parts)


def table_4(keys: pd.DataFrame) -> Readable:
    """Unselectable keys of a BERT with its LayerNorms and without any, from key_selectability."""
    frame = ordered(language_model.unselectable_shares(keys, model="bert", site="after_norm"), "variant")
    title = f"Keys of BERT with its LayerNorms, and with every one removed. {_contexts(keys, 'bert', 'sentences')}"
    return Readable(frame, [title, shares_by_layer(frame, "variant", LEGENDS)])


def heads(keys: pd.DataFrame) -> Readable:
    """Unselectable keys in the heads of the GPTs, among all keys and among earlier ones, from key_selectability."""
    in_heads = keys[keys.site.isin(["head", "head_exact"]) & (keys.texts == "long")]
    rivals = {
        False: "among all keys of the context",
        True: "among the keys before them, as a causal query meets them",
    }
    frames, parts = [], []
    for model, of_model in in_heads.groupby("model", sort=False):
        for causal, words in rivals.items():
            shares = ordered(language_model.unselectable_shares(of_model, causal=causal), "variant")
            frames.append(shares.assign(causal=causal))
            for site, name in (("head", ""), ("head_exact", ", QK-norm with eps = 0")):
                shown = shares[shares.site == site]
                if len(shown):
                    size = f"d_head = {of_model.dimensions.iloc[0]}"
                    title = f"{model} ({size}): keys in the heads{name}, {words}. {_contexts(keys, model, 'long')}"
                    parts += [title, shares_by_layer(shown, "variant", LEGENDS)]
    frame = pd.concat(frames) if frames else language_model.unselectable_shares(in_heads).assign(causal=False)
    return Readable(frame, parts)


def baselines(metrics: pd.DataFrame) -> Readable:
    """The final validation loss of every language model beside two baselines, from language_model_metrics."""
    frame = language_model.baselines(metrics)
    cells = {"model": "{.model}", **NORM, "seeds": "{.seeds}"}
    return Readable(frame, [grid(frame, cells | _losses(_BASELINES), texts=2)])


_BASELINES = {
    "validation loss": "valid_loss",
    "unigram": "unigram_loss",
    "no attention": "no_attention_loss",
    "below unigram by": "gain_over_unigram",
    "attention is worth": "worth_of_attention",
}
"""Columns of losses in nats, by their headings."""


def _losses(columns: Mapping[str, str]) -> dict[str, Cell]:
    """How the cells of columns of losses are made, by heading: a mean in nats, with its interval if the row has one."""
    return {name: lambda row, of=column: _loss(row, of) for name, column in columns.items()}


def losses_by_rate(metrics: pd.DataFrame) -> Readable:
    """Final losses by learning rate, length and norm of the models that have several, from language_model_metrics."""
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
        **_losses({"training loss": "train_loss", "validation loss": "valid_loss"}),
    }
    note = (
        "Nats per token at the last step, means over the runs that did not diverge, the validation loss with its 95 % "
        f"interval. A run has learnt to attend if it gets {TRAINS:.0%} of what attention is worth to LayerNorm at "
        "its best learning rate, in the longest training. A loss over runs of which some have learnt it and others "
        "have not is a mean of two humps."
    )
    return Readable(frame, [grid(frame, cells, texts=2), note])


def pilot() -> Readable:
    """What attention was worth in trials of settings for the model gpt_bytes, and what a training run cost."""
    frame = language_model.pilot()
    settings = ["heads", "layers", "context_length", "batch_size", "learning_rate", "steps", "seeds"]
    losses = {"LayerNorm": "valid_loss", "projection only": "projection_loss"}
    losses |= {name: _BASELINES[name] for name in ("no attention", "unigram", "attention is worth")}
    cells = {
        "d_model": "{.d_model:,g}",
        **{name.replace("_", " "): f"{{.{name}:,g}}" for name in settings},
        **_losses(losses),
        "CPU seconds a run": "{.cpu_seconds:,.0f}",
    }
    return Readable(frame, [grid(frame, cells, texts=0)])


def shares_by_layer(
    shares: pd.DataFrame,
    column: str,
    names: Mapping[str, str],
    paper: Mapping[str, Sequence[float]] | None = None,
) -> pd.DataFrame:
    """Shares of unselectable keys as a grid of texts with a column for each layer, before training and after it.

    `shares` is the result of `unselectable_shares`; each value of `column` has a row before training and one after,
    called by `names`. `paper` maps a value to the per cent that the paper reports for each layer, which have a row of
    their own. The last column is of keys that are undecided, in all layers.
    """
    rows = []
    for value, part in shares.groupby(column, sort=False):
        name = names.get(value, value)
        for checkpoint in language_model.CHECKPOINTS:
            group = part[part.checkpoint == checkpoint]
            seeds = str(group.seeds.iloc[0]) if len(group) else MISSING
            cells = {row.layer: _share(row) for row in group.itertuples()}
            rows.append(
                ([name, WEIGHTS[checkpoint], seeds], cells, [percent(group.borderline_percent.mean())])
            )
        if value in (paper or {}):
            cells = {layer: percent(reported) for layer, reported in enumerate(paper[value], start=1)}
            rows.append(([name, "paper, trained", MISSING], cells, [MISSING]))
    of_values = {"variant": "norm", "site": "keys"}.get(column, column)
    return layered([of_values, "weights", "seeds"], rows, ["undecided"], texts=2)


def _contexts(keys: pd.DataFrame, model: str, texts: str) -> str:
    lengths = keys.n_keys[(keys.model == model) & (keys.texts == texts)]
    words = {"long": "Contexts", "sentences": "Sentences"}[texts]
    return f"{words} of {span(lengths, '')} tokens." if len(lengths) else ""


def _loss(row, name: str) -> str:
    """A mean in nats with its interval, if the row has one."""
    ends = (getattr(row, name + end, float("nan")) for end in ("_low", "_high"))
    return estimate(getattr(row, name), *ends, ".3f")


def _share(row) -> str:
    low, high = max(row.low, 0.0), min(row.high, 100.0)
    return "0" if low == high == 0 else estimate(row.percent, low, high, percent)

"""The measured numbers of the claims about pretrained models, computed again with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

from collections import defaultdict
from functools import partial
from statistics import geometric_mean, mean

MODEL, DECODER = "minilm", "smollm2"


def unselectable_in_heads(tables, model=MODEL):
    counts = defaultdict(list)
    for row in tables["pretrained_keys"].itertuples():
        if (row.model, row.site, row.causal) == (model, "head", False):
            counts[row.context, row.layer].append(row.n_unselectable / row.n_keys)
    return 100 * mean(map(mean, counts.values()))


def rows_of(tables, queries, normalised):
    table = tables["pairs"]
    table = table[
        table["model"].eq(MODEL) & table["queries"].eq(queries) & table["normalised"].eq(normalised)
    ]
    columns = ("context", "layer", "head", "position", "lower", "upper", "received_max")
    return zip(*(table[column].tolist() for column in columns), strict=True)


def half_out_of_reach(tables):
    hits = defaultdict(list)
    for context, layer, _, _, _, upper, _ in rows_of(tables, "norm", "as used"):
        hits[context, layer].append(upper < 0.5)
    return 100 * mean(mean(map(float, part)) for part in hits.values())


def half_not_received(tables):
    idle = defaultdict(list)
    for context, *_, lower, _, received in rows_of(tables, "norm", "as used"):
        if lower >= 0.5:
            idle[context].append(float(received < 0.5))
    return 100 * mean(map(mean, idle.values()))


def along_ones(tables, model=MODEL):
    by_context = defaultdict(list)
    widest = max(
        (row.dimensions for row in tables["ones_share"].itertuples() if row.model == model), default=0
    )
    for row in tables["ones_share"].itertuples():
        if (row.model, row.checkpoint, row.dimensions) == (model, "pretrained", widest):
            by_context[row.context].append(row.ones_share * widest)
    return geometric_mean(map(mean, by_context.values()))


RECOMPUTED = {
    "heads_of_practical_width": unselectable_in_heads,
    "norm_lets_keys_win": half_out_of_reach,
    "ceilings_not_used": half_not_received,
    "projections_idle": along_ones,
    "heads_of_practical_width_decoder": partial(unselectable_in_heads, model=DECODER),
    "projections_idle_decoder": partial(along_ones, model=DECODER),
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""

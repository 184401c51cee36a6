"""The claims about pretrained models, computed again from the tables by code that shares none with evidence."""

from functools import partial

from scipy.stats import gmean

MODEL, DECODER = "minilm", "smollm2"


def unselectable_in_heads(t, model=MODEL) -> float:
    k = t["pretrained_keys"].query("model == @model and site == 'head' and not causal")
    return 100 * (k.n_unselectable / k.n_keys).groupby([k.context, k.layer]).mean().mean()


def pairs(t):
    """Pairs of a key in use and a head, with the bounds of what queries behind the norm can give."""
    return t["pairs"].query("model == @MODEL and queries == 'norm' and normalised == 'as used'")


def half_out_of_reach(t) -> float:
    p = pairs(t)
    return 100 * (p.upper < 0.5).groupby([p.context, p.layer]).mean().mean()


def half_not_received(t) -> float:
    able = pairs(t).query("lower >= 0.5")
    return 100 * (able.received_max < 0.5).groupby(able.context).mean().mean()


def along_ones(t, model=MODEL) -> float:
    s = t["ones_share"].query("model == @model")
    s = s[(s.dimensions == s.dimensions.max()) & (s.checkpoint == "pretrained")]
    return gmean((s.ones_share * s.dimensions).groupby(s.context).mean())


RECOMPUTED = {
    "heads_of_practical_width": unselectable_in_heads,
    "norm_lets_keys_win": half_out_of_reach,
    "ceilings_not_used": half_not_received,
    "projections_idle": along_ones,
    "heads_of_practical_width_decoder": partial(unselectable_in_heads, model=DECODER),
    "projections_idle_decoder": partial(along_ones, model=DECODER),
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""

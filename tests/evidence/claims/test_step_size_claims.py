"""Verdicts on size as a learning rate, on models whose losses follow from f and r by construction."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import assert_judged, outcome_of, verdict_on
from plain import interval
from pytest import approx
from scipy.stats import t

from layernorm_roles.evidence.analysis import step_size

F = {
    "layernorm": 1.0,
    "qk_316": 0.31622777,
    "qk_100": 0.1,
    "shrunk_qk": 0.028284271,
    "layernorm_shrunk": 0.028284271,
}
BYTES = {
    "small": ("shrunk_qk", (35.355339, 1.0), 8),
    "layernorm": ("layernorm", (1.0, 0.028284271), 8),
    "law_028": ("shrunk_qk", (11.18034, 3.5355339), 5),
    "law_100": ("qk_100", (31.622777, 10.0, 3.1622777, 1.0), 5),
    "law_316": ("qk_316", (10.0, 3.1622777, 1.0, 0.31622777), 5),
    "law_1": ("layernorm", (3.1622777, 0.31622777, 0.1), 5),
}
PAPER = {
    "small": ("layernorm_shrunk", (35.355339, 1.0), 8),
    "layernorm": ("layernorm", (1.0, 0.028284271), 8),
    "projection": ("projection", (5.0,), 8),
}
MODELS = {f"step_size_bytes_{name}": arms for name, arms in BYTES.items()}
MODELS |= {f"step_size_paper_{name}": arms for name, arms in PAPER.items()}
PRODUCTS = (3.1622777, 1.0, 0.31622777, 0.1, 0.028284271)
LOSS, WORTH = (2.25, 2.2, 2.3, 2.4, 2.5), (0.4, 0.45, 0.35, 0.2, 0.03)


def tables(
    change=lambda *_: (0.0, 0.0),
    spread=0.002,
    onset=10_000,
    late=10_000,
    paper=0.05,
    loss=LOSS,
    models=MODELS,
):
    """Runs whose loss and worth follow from f r; `change` is added, a function of model, f and r that gives both.

    `paper`: what attention is worth at the paper's rate where f r is 1. It is learnt at the step `onset`, by a small
    LayerNorm `late`. `spread` is the deviation of both from run to run, beside one that is common to a seed's runs.
    """
    metrics, attention, rng = [], [], worlds.noise(9)
    for model, (variant, rates, seeds) in models.items():
        steps = 20_000 if "paper" in model else 3000
        for rate, i in ((rate, i) for rate in rates for i in range(seeds)):
            f = F.get(variant, 0.2)
            place = int(np.abs(np.log(np.array(PRODUCTS) / (f * rate))).argmin())
            ends, w = loss[place], WORTH[place]
            if "paper" in model:
                w = paper if place == 1 else 0.0003
            more = change(model, f, rate)
            ends, w = (
                ends + more[0] + 0.05 * i + rng.normal(0, spread),
                w + more[1] + rng.normal(0, min(spread, w / 20)),
            )
            run = {
                "model": model,
                "variant": variant,
                "seed": 60_000 + i,
                "steps": steps,
                "query_key_rate": rate,
            }
            run |= {"base_learning_rate": 1e-3}
            for step in range(0, steps + 1, steps // 10):
                begins = (onset if f == 1 else late) * steps / 20_000
                metrics.append(run | {"step": step, "valid_loss": ends + (step < steps), "train_loss": ends})
                whole = {"step": step, "layer": np.nan, "zero_scores_worth": w * (step >= begins)}
                attention.append(run | whole)
                attention.append(run | {"step": step, "layer": 1, "zero_scores_worth": np.nan})
    names = ("language_model_metrics", "language_model_attention")
    return {name: worlds.table(name, rows) for name, rows in zip(names, (metrics, attention), strict=True)}


def shifted(chosen, loss=0.0, worth=0.0):
    return lambda model, f, rate: (loss, worth) if chosen(model, f, rate) else (0.0, 0.0)


def is_slow(model, f, rate):
    return f == 1 and rate < 0.03


def is_restored(model, f, rate):
    return f < 0.03 and rate > 30


def of_paper(model, f, rate):
    return "paper" in model


def narrow(models):
    """The models whose names contain a word."""
    return {name: arms for name, arms in MODELS.items() if models in name}


LESS_WORTH = shifted(lambda *run: of_paper(*run) and is_restored(*run), worth=-0.0496)
LOST = shifted(lambda *run: not of_paper(*run) and is_restored(*run), worth=-0.43)
KNOWN = {
    "rate_not_size": [
        ({}, "holds"),
        ({"change": LESS_WORTH}, "does not hold: Size itself matters"),
        ({"change": LOST}, "does not hold"),
        ({"change": shifted(lambda *run: of_paper(*run) and is_slow(*run), worth=0.03)}, "does not hold"),
        # in bytes less than a quarter of LayerNorm's is enough, and more is not
        ({"change": shifted(lambda *run: not of_paper(*run) and is_slow(*run), worth=0.05)}, "holds"),
        ({"change": shifted(lambda *run: not of_paper(*run) and is_slow(*run), worth=0.15)}, "does not hold"),
        ({"paper": 0.0203}, "inconclusive"),
        ({"models": narrow("bytes")}, "not run here"),
        (
            {"models": {**narrow("bytes"), **narrow("paper_small")}},
            "not run here: LayerNorm, at the paper's rate",
        ),
    ],
    "restored": [
        ({}, "holds"),
        ({"change": shifted(is_restored, loss=0.005)}, "holds"),
        ({"change": shifted(is_restored, loss=0.2)}, "does not hold"),
        ({"change": shifted(is_restored, loss=-0.2)}, "does not hold"),
        ({"late": 16_000}, "does not hold"),  # it ends as LayerNorm does, and learns later
        ({"spread": 0.02}, "inconclusive"),
    ],
    "one_curve": [
        ({}, "holds"),
        ({"change": shifted(lambda model, f, rate: f == 0.1, loss=0.01)}, "holds"),
        ({"change": shifted(lambda model, f, rate: f == 0.1, loss=0.06)}, "does not hold"),
        # there is no difference between 0.316 and 0.1
        ({"loss": (2.25, 2.2, 2.3, 2.3, 2.5)}, "does not hold"),
        # what differs is the rate alone
        ({"change": shifted(lambda model, f, rate: rate > 9, loss=0.06)}, "does not hold"),
        ({"spread": 0.03}, "inconclusive"),
        ({"models": narrow("paper")}, "not run here"),
        ({"models": narrow("bytes_small") | narrow("bytes_layernorm")}, "not run here: fewer than two"),
    ],
}


@pytest.mark.parametrize(
    ("name", "world", "expected"), [(name, *case) for name, cases in KNOWN.items() for case in cases]
)
def test_known_worlds(name, world, expected):
    assert_judged(name, tables(**world), expected)


def test_a_quarter_of_what_the_product_costs_is_the_measure_of_one_curve():
    row = verdict_on("one_curve", **tables(spread=0.0))[1]
    assert row.measured == approx(0.1) and row.n_seeds == 5
    asked = [each.asked for words, each in row.rows.items() if words.startswith("f r = ") and each.asked]
    assert asked == ["within ±0.025"] * (3 + 6 + 6 + 6)  # cells of 3.16, 1, 0.316 and 0.1 that are compared
    controls = [each for each in row.rows.values() if each.asked == "more than 0.025, up or down"]
    # four sizes at 1 and 0.316, four at 0.316 and 0.1; rates 3.16 and 1 at the first, 1 and 0.316 at the second
    assert len(controls) == 8 + 4 and all(each.estimate == approx(0.1) for each in controls)


def test_the_half_step_is_the_first_with_half_of_layernorm_s_worth():
    statistics = [
        row.number.statistic for row in outcome_of("restored", tables(onset=12_000, late=12_000)).rows
    ]
    words = "loss increase under uniform attention at step {:,}".format
    assert [each for each in statistics if "at step" in each] == [words(12_000), words(1800)]


def test_the_law_has_a_row_for_each_cell_with_intervals_over_common_seeds():
    world = tables()
    law = step_size.law(world["language_model_metrics"], world["language_model_attention"])
    assert len(law) == 17 and set(law.seeds) == {5}
    assert law["product"].to_numpy() == approx((law["size"] * law.query_key_rate).to_numpy())
    assert law.groupby(law.level.fillna(0)).size().to_dict() == approx(
        {0.0: 2, 0.1: 4, 10**-0.5: 4, 1.0: 4, 10**0.5: 3}
    )
    last = world["language_model_metrics"].query(
        "step == steps and variant == 'qk_100' and query_key_rate == 10"
    )
    cell = law[(law["size"] == 0.1) & (law.query_key_rate == 10)].iloc[0]
    assert (cell.loss, cell.loss_low, cell.loss_high) == approx(interval(last.valid_loss))


def test_differences_of_cells_have_the_residual_variance_of_a_two_way_table():
    cells = pd.DataFrame(worlds.noise(4).normal(size=(5, 4)), columns=list("abcd"))
    values = cells.to_numpy()
    total = ((values - values.mean()) ** 2).sum()
    of_seeds = 4 * ((values.mean(axis=1) - values.mean()) ** 2).sum()
    of_cells = 5 * ((values.mean(axis=0) - values.mean()) ** 2).sum()
    half = t.ppf(0.975, 12) * np.sqrt((total - of_seeds - of_cells) / 12 * 2 / 5)
    found = step_size.pairs(cells)
    assert [*found] == [*combinations("abcd", 2)]
    for (one, other), estimate in found.items():
        mean = cells[one].mean() - cells[other].mean()
        assert estimate == approx((mean, mean - half, mean + half))

"""The list of claims, and the table that judging writes."""

import numpy as np
import pandas as pd
import pytest
import random_world
import worlds
from judging import CLAIMS, verdict_on
from layernorm_roles.evidence.claims.claim import Claim
from layernorm_roles.evidence.claims.comparison import Comparison, Outcome, Value, ask
from pytest import approx
from scipy import stats

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import Estimate


def test_an_empty_run_has_a_row_for_every_claim_and_says_what_is_missing():
    table, comparisons = claims.judge({})
    assert len(table) == len(claims.CLAIMS) == table.claim.nunique() and comparisons.empty
    assert set(table.verdict) == {"not tested"} and set(table.n_seeds) == {0}
    assert table.reason.str.contains(r"This run has no \w+").all()


STEPS = {"layernorm": 1.0, "scale_released": 1.1, "scale": 0.97, "layernorm_small": 1.5}


def test_primary_claims_have_holm_s_p_of_no_effect_on_the_scale_of_their_interval():
    unequal = worlds.metrics(STEPS, spread=0.1, seeds=6)
    accuracies = {"layernorm": 0.9, "scale": 0.92, "scale_released": 0.8}
    ends = worlds.metrics(accuracies=accuracies, experiment="rates", rate=0.03, seeds=6)
    judged = claims.judge({"majority_metrics": pd.concat([unequal, ends])})[0].set_index("claim")
    last = ends[ends.step == ends.step.max()].pivot(index="seed", columns="variant", values="test_accuracy")
    reached = majority.steps_to_reach(unequal, [0.5])
    steps = np.log(reached.pivot(index="seed", columns="variant", values="steps"))
    released = steps.scale_released - steps.layernorm
    effects = {
        "faster": released,
        "size_or_projection": released + steps.layernorm_small - steps.scale,
        "final_accuracy": last.layernorm - last.scale,
    }
    alone = {name: stats.ttest_1samp(values, 0).pvalue for name, values in effects.items()}
    tested = judged.p_holm.dropna()
    assert {*alone} == {*tested.index} and judged.role[tested.index].eq("primary").all()
    family, least = sum(claim.primary for claim in claims.CLAIMS), 0.0
    for left, name in enumerate(sorted(alone, key=alone.get)):
        least = max(least, min(1, (family - left) * alone[name]))
        assert tested[name] == approx(least)


def test_an_effect_that_the_correction_leaves_open_makes_no_verdict():
    """Alone the size is seen; in a family of primary claims it is not, and so is none of another claim's."""
    for seeds, spread in ((3, 0.25), (10, 0.03)):
        ratios = STEPS | {"layernorm_small": 3.0, "scale_released": 3.1}
        runs = worlds.metrics(ratios, spread=spread, seeds=seeds)
        alone = verdict_on("size_or_projection", majority_metrics=runs)[0]
        row = claims.judge({"majority_metrics": runs})[0].set_index("claim").loc["size_or_projection"]
        assert alone == "holds"
        assert (row.verdict == "holds") == (row.p_holm < 0.05) == (seeds == 10)
        assert ("with Holm's correction for" in row.reason) == (seeds == 3)


def of_family(p: dict[str, float], verdict="holds", **options):
    """The row of a claim whose comparisons have these p-values and findings, after a correction to `p_holm`."""
    names = dict.fromkeys(["seen", "bound", "control", "context"], ask("positive"))
    names |= {"at most": ask("no_more_than", 9.0), "smaller": ask("half_of", 9.0)}
    rows = []
    for i, (name, value) in enumerate(p.items()):
        half = stats.t.ppf(0.975, 9) / stats.t.isf(value / 2, 9)  # of an estimate of 1 from ten values
        found = Estimate(1.0, 1 - half, np.inf if name == "bound" else 1 + half)
        role, part = (name, None) if name in ("control", "context") else ("effect", i)
        rows.append(Comparison(name, Value(found, 10), names[name], role, part=part))
    outcome = Outcome(tuple(rows))
    row = {"verdict": verdict, "reason": ""}
    return outcome.p, CLAIMS["widths"].corrected(row, outcome, **options)


def test_the_p_of_a_claim_is_the_largest_of_the_effects_that_its_verdict_needs():
    p, row = of_family({"seen": 0.001, "at most": 0.5}, p_holm=0.01, family=9)
    assert p == approx(0.001) and row["verdict"] == "holds"
    for other in ("control", "smaller"):
        p, _ = of_family({"seen": 0.001, other: 0.03, "context": 0.04}, p_holm=0.01, family=9)
        assert p == approx(0.03)
    p, row = of_family({"at most": 0.01, "seen": 0.02}, p_holm=0.2, family=9)
    assert p == approx(0.02) and row["verdict"] == "not tested" and row["p_holm"] == 0.2
    p, row = of_family({"at most": 0.3}, p_holm=1.0, family=9)  # it says that there is no effect
    assert p == approx(0.3) and row["verdict"] == "holds"
    p, row = of_family({"bound": 0.001}, p_holm=np.nan, family=9)
    assert np.isnan(p) and row["verdict"] == "not tested" and "a bound has no p-value" in row["reason"]
    assert np.isnan(of_family({"seen": 0.01, "bound": 0.001}, p_holm=np.nan, family=9)[0])
    assert of_family({"at most": 0.3}, "reversed", p_holm=0.2, family=9)[1]["verdict"] == "not tested"
    for verdict in ("does not hold", "not reproduced", "not tested"):
        assert of_family({"seen": 0.02}, verdict, p_holm=0.2, family=9)[1]["verdict"] == verdict


def new_claim(**changes):
    """The claim of an entry of a YAML file with these keys changed, None for a key that is left out."""
    words = dict.fromkeys(("source", "statement", "statistic", "control", "rule"), "x")
    words |= {"name": "new", "part": "projection", "target": "majority", "tables": ["majority_metrics"]}
    compared = [{"over": ["scale", "layernorm"], "half_of": "steps_ratio"}]
    entry = words | {"of": "d8", "quantity": "steps", "compare": compared} | changes
    return Claim.model_validate({key: value for key, value in entry.items() if value is not None})


OVER = {"over": ["scale", "layernorm"]}
WRONG = {
    "compair": {"compair": []},
    "stepps": {"quantity": "stepps"},
    "majority_metric": {"tables": ["majority_metric"]},
    "majorities": {"sizes": "majorities"},
    "ZERRO": {"rule": "At most {ZERRO:g} %."},
    "steps_ration": {"reported": "steps_ration"},
    "layernrom": {"compare": [{"over": ["scale", "layernrom"]}]},
    "paralel": {"compare": None, "test": {"function": "paralel"}},
}
OF_REQUEST = {
    "half_off": {"half_off": 3},
    "layernomr": {"less": [0.5, "scale", "layernomr"]},
    "HALFF": {"less": ["HALFF", "scale", "layernorm"]},
    "QUARTR": {"more_than": "QUARTR valid_gap"},
    "step_ratio": {"half_of": "step_ratio"},
    "ZEERO": {"more_than": "ZEERO"},
    "controll": {"role": "controll"},
    "skip": {"if_lacking": "skip"},
}
WRONG |= {word: {"compare": [OVER | wrong]} for word, wrong in OF_REQUEST.items()}


@pytest.mark.parametrize("word", WRONG)
def test_a_misspelt_name_in_an_entry_is_refused_by_name(word):
    new_claim()
    with pytest.raises(ValueError, match=word):
        new_claim(**WRONG[word])


# Sizes, and numbers on one scale


def of_majority(*parts):
    return {"majority_metrics": pd.concat([worlds.metrics(last=600, **part) for part in parts])}


LOSSES = [worlds.losses(0.05), worlds.losses(0.05, model="other", seeds=5)]
LOSSES = {"language_model_metrics": pd.concat(LOSSES)}
RANDOM_KEYS = worlds.random_keys({"none": (1.0, 0.0)})
AS_IN_PAPER = RANDOM_KEYS.replace({"n": {10: 3}})
TO_60 = "to 60, d = 3 to 15, 100 matrices for each"
OTHER = {"ratios": {"layernorm": 1.0, "scale": 1.0}, "experiment": "d3", "d_model": 3, "seeds": 5}
AT_ONE_RATE = {"ratios": {"layernorm": 1.0}, "seeds": 3}
AT_ANOTHER = {"ratios": {"none": 1.0}, "rate": 0.01, "seeds": 2}
PLACES = {("layernorm", "final", site): 0.1 for site in ("head", "after_norm")}
KEYS = [
    worlds.keys(PLACES, model, texts).assign(n_keys=n)
    for model, texts, n in (("other", "long", 70), ("gpt", "long", 900), ("gpt", "sentences", 30))
]
KEYS[0]["dimensions"] = 64
KEYS = {"key_selectability": pd.concat(KEYS)}
STEPS_OF_GPT = (
    "1,000 steps of 100 tokens, 3 runs of each variant "
    "(the paper: d_model = 8, 50,000 steps of 16,384 tokens, one run)."
)
SIZES = [
    (
        "faster",
        of_majority(AT_ONE_RATE, AT_ANOTHER, OTHER),
        "d = 8, learning rate 0.001 to 0.01; 600 steps, 2 to 3 runs of each variant (the paper: 10 runs).",
    ),
    ("random_keys", {"random_keys": RANDOM_KEYS}, f"n = 10 {TO_60} (the paper: n = 3 {TO_60})."),
    ("random_keys", {"random_keys": AS_IN_PAPER}, f"n = 3 {TO_60}, as in the paper."),
    ("attention_worth", LOSSES, f"Wikipedia. {STEPS_OF_GPT}"),
    ("table_1", LOSSES | KEYS, f"d_model = 8; {STEPS_OF_GPT} Keys of 4 contexts of 900 tokens."),
    ("table_3", LOSSES | KEYS, f"d_model = 8; {STEPS_OF_GPT} Keys of 4 contexts of 30 tokens."),
    (
        "heads_of_practical_width",
        {"pretrained_keys": random_world.TABLES["pretrained_keys"]},
        "minilm: 3 documents of 1,000 to 1,200 tokens, 2 layers of 2 heads of 8 dimensions.",
    ),
]


@pytest.mark.parametrize(("name", "tables", "sentence"), SIZES)
def test_the_setting_of_a_claim_ends_with_the_sizes_of_what_ran(name, tables, sentence):
    assert verdict_on(name, **tables)[1].setting.endswith(sentence)


def test_on_the_common_scale_a_number_is_a_share_of_the_reported_one_and_a_ratio_by_its_logarithm():
    scaled = claims.on_common_scale(random_world.claims()).set_index("claim")
    scaled = scaled[["effect", "low", "high", "isolated", "isolated_low", "isolated_high"]]
    assert scaled.loc["faster"].tolist() == approx([0.5, 0.25, np.inf, 0, -1, 1])
    assert scaled.loc["accurate"].tolist() == approx([-0.5, 1, -1.5, *[np.nan] * 3], nan_ok=True)
    assert scaled.loc["table_1"].tolist() == approx([5, 4.5, 5.5, 0.5, 0.4, 0.6])
    assert scaled.loc["zero"].isna().all()

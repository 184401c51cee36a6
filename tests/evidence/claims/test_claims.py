"""The list of claims, and the table that judging writes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import CLAIMS, verdict_on
from pytest import approx
from scipy import stats

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.claims.claim import Claim
from layernorm_roles.evidence.claims.comparison import Comparison, Outcome, Value, ask


def test_an_empty_run_has_a_row_for_every_claim_and_says_what_is_missing():
    table, comparisons = claims.judge({})
    assert len(table) == len(claims.CLAIMS) == table.claim.nunique() and comparisons.empty
    assert set(table.verdict) == {"not tested"}
    assert table.reason.str.contains(r"This run has no \w+").all()


def test_every_claim_names_its_control_its_rule_and_tables_that_exist():
    for claim in claims.CLAIMS:
        assert claim.control and claim.rule and "{" not in claim.rule + claim.statistic
        assert (claim.role == "other documents") == (claim.part == "documents")
    files = Path(claims.__file__).parent.glob("*.yaml")
    written = "".join(file.read_text(encoding="utf-8") for file in files)
    assert written.count("primary: true") == sum(claim.primary for claim in claims.CLAIMS), "none inherits it"
    assert CLAIMS["faster_uniform"].statement.startswith(CLAIMS["faster"].statement + " Again, ")
    assert CLAIMS["faster_uniform"].source == CLAIMS["faster"].source + "; on other data"


STEPS = {"layernorm": 1.0, "scale_released": 1.1, "scale": 0.97, "layernorm_small": 1.5}


def test_primary_claims_have_holm_s_p_of_no_effect_on_the_scale_of_their_interval():
    unequal = worlds.metrics(STEPS, spread=0.1, seeds=6)
    accuracies = {"layernorm": 0.9, "scale": 0.92, "scale_released": 0.8}
    ends = worlds.metrics(accuracies=accuracies, experiment="rates", rate=0.03, seeds=6)
    judged = claims.judge({"majority_metrics": pd.concat([unequal, ends])}).claims.set_index("claim")
    last = ends[ends.step == ends.step.max()].pivot(index="seed", columns="variant", values="test_accuracy")
    steps = majority.steps_to_reach(unequal, [0.5]).pivot(index="seed", columns="variant", values="steps")
    steps = np.log(steps)
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
        row = claims.judge({"majority_metrics": runs}).claims.set_index("claim").loc["size_or_projection"]
        assert alone == "holds"
        assert (row.verdict == "holds") == (row.p_holm < 0.05) == (seeds == 10)
        assert ("with Holm's correction for" in row.reason) == (seeds == 3)


def of_family(p: dict[str, float], verdict="holds", **options):
    """The row of a claim whose comparisons have these p-values and findings, after a correction to `p_holm`."""
    names = {"seen": ask("positive"), "bound": ask("positive"), "at most": ask("no_more_than", 9.0)}
    rows = []
    for i, (name, value) in enumerate(p.items()):
        half = stats.t.ppf(0.975, 9) / stats.t.isf(value / 2, 9)  # of an estimate of 1 from ten values
        found = Estimate(1.0, 1 - half, np.inf if name == "bound" else 1 + half)
        rows.append(Comparison(name, Value(found, 10), names[name], part=i))
    outcome = Outcome(tuple(rows))
    row = {"verdict": verdict, "reason": ""}
    return outcome.p, CLAIMS["widths"].corrected(row, outcome, **options)


def test_the_p_of_a_claim_is_the_largest_of_the_effects_that_its_verdict_needs():
    p, row = of_family({"seen": 0.001, "at most": 0.5}, p_holm=0.01, family=9)
    assert p == approx(0.001) and row["verdict"] == "holds"
    p, row = of_family({"at most": 0.01, "seen": 0.02}, p_holm=0.2, family=9)
    assert p == approx(0.02) and row["verdict"] == "not tested" and row["p_holm"] == 0.2
    p, row = of_family({"at most": 0.3}, p_holm=1.0, family=9)  # it says that there is no effect
    assert p == approx(0.3) and row["verdict"] == "holds"
    p, row = of_family({"bound": 0.001}, p_holm=np.nan, family=9)
    assert np.isnan(p) and row["verdict"] == "not tested" and "a bound has no p-value" in row["reason"]
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
TEST = {"compare": None, "test": {"function": "on_a_plane", "variant": "scale", "flat": 0.1}}
WRONG = [
    ({"compair": []}, "compair"),
    ({"quantity": "stepps"}, "stepps"),
    ({"tables": ["majority_metric"]}, "majority_metric"),
    ({"sizes": "majorities"}, "majorities"),
    ({"rule": "At most {ZERRO:g} %."}, "ZERRO"),
    ({"reported": "steps_ration"}, "steps_ration"),
    ({"compare": [{"over": ["scale", "layernrom"]}]}, "layernrom"),
    *(
        ({"compare": [OVER | wrong]}, word)
        for wrong, word in (
            ({"half_off": 3}, "half_off"),
            ({"less": [0.5, "scale", "layernrom"]}, "layernrom"),
            ({"less": ["HALFF", "scale", "layernorm"]}, "HALFF"),
            ({"more_than": "QUARTR valid_gap"}, "QUARTR"),
            ({"half_of": "steps_ration"}, "steps_ration"),
            ({"more_than": "ZERRO"}, "ZERRO"),
            ({"role": "controll"}, "controll"),
            ({"if_lacking": "skip"}, "skip"),
        )
    ),
    ({"compare": None, "test": {"function": "paralel"}}, "paralel"),
    (TEST | {"test": TEST["test"] | {"flatt": 1}}, "flatt"),
]


@pytest.mark.parametrize(("changes", "word"), WRONG, ids=[word for _, word in WRONG])
def test_a_misspelt_name_in_an_entry_is_refused_by_name(changes, word):
    new_claim()
    with pytest.raises(ValueError, match=word):
        new_claim(**changes)

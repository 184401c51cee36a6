"""What the figures of attention by step draw: losses, worth and onsets of runs whose truth is known."""

import figure_worlds as worlds
import numpy as np
import pytest
from figure_worlds import curve, name

from layernorm_roles.evidence.analysis.attention_by_step import dose, onsets
from layernorm_roles.evidence.figures.attention_by_step import DOSES

MODEL = "gpt_paper_rate"


def test_the_paper_s_rate_shows_losses_gaps_worth_and_scores_of_the_variants_compared():
    losses, gaps, worth, scores = worlds.draw("figure_4_paper_rate").axes
    metrics, looks = worlds.language_model_metrics(), worlds.language_model_attention()
    metrics, looks = metrics[(metrics.model == MODEL) & (metrics.step > 0)], looks[looks.step > 0]
    wide = metrics.pivot(index=["step", "seed"], columns="variant", values="valid_loss")
    for variant in ("layernorm", "projection", "layernorm_shrunk", "projection_grown", "no_attention"):
        np.testing.assert_allclose(
            curve(losses, name(variant)).get_ydata(), wide[variant].groupby("step").mean()
        )
        if variant != "layernorm":
            gap = (wide[variant] - wide.layernorm).dropna().groupby("step").mean()
            np.testing.assert_allclose(curve(gaps, name(variant)).get_ydata(), gap, atol=1e-12)
        own = looks[looks.variant == variant].groupby("step")
        for axes, column in ((worth, "zero_scores_worth"), (scores, "score_deviation")):
            if variant != "no_attention":
                np.testing.assert_allclose(curve(axes, name(variant)).get_ydata(), own[column].mean())


def test_a_run_begins_to_attend_at_the_first_step_at_which_its_scores_are_worth_as_much():
    found = onsets(worlds.language_model_attention()).set_index(["variant", "seed"])
    assert "no_attention" not in found.index and (found.last_step == 400).all()
    for (variant, seed), run in found.iterrows():
        step = worlds.BEGINS.get(variant, 999) + 100 * seed
        assert run.onset == step if step <= 400 else np.isnan(run.onset)
    # The size at step 40, a tenth of the run, is the mean of both layers.
    sizes = {"layernorm": 1.0, "layernorm_shrunk": 0.03, "quarter": 0.25}
    for variant, size in sizes.items():
        assert found.input_rms[variant].tolist() == pytest.approx([size * 1.04] * len(found.loc[variant]))


def test_doses_are_read_from_built_in_variants_and_from_factors_of_the_settings():
    known = {
        "layernorm": ("layernorm", 1.0), "layernorm_small": ("layernorm", 0.125), "scale_released": ("scale", 0.125),
        "quarter": ("layernorm", 0.25), "scale_half": ("scale", 0.5), "projection": ("projection", 1.0),
        "projection_grown": ("projection", 25 * 2**0.5),
    }  # fmt: skip
    for variant, (family, size) in known.items():
        found = dose(variant, worlds.NORMS, 8)
        assert found.family == family and found.size == pytest.approx(size)
    others = (
        "none",
        "no_attention",
        "layernorm_qk",
        "shrunk_qk",
        "projection_matched",
        "layernorm_gain",
        worlds.OWN,
    )
    assert [dose(variant, worlds.NORMS, 8) for variant in others] == [None] * len(others)


def test_dose_and_response_has_a_mark_for_each_run_and_shows_those_that_do_not_get_there():
    sizes = {"d8": worlds.D8 | {"seeds": {"layernorm": 2, "scale_released": 2}}}
    sizes["sizes"] = worlds.D8 | {"seeds": {"quarter": 2, "scale_half": 1, "projection": 1}}
    metrics = worlds.majority_metrics(sizes)
    metrics["test_loss"] = np.where(metrics.step >= 2400, 0.4, 0.6)
    metrics.loc[metrics.variant == "quarter", "test_loss"] = 0.6
    begins, majority = worlds.draw("dose_response", majority_metrics=metrics).axes
    found = onsets(worlds.language_model_attention())
    for kind, variants in {"layernorm": ["layernorm", "layernorm_shrunk", "quarter"], "shrunk_qk": ["shrunk_qk"],
                           "projection": ["projection", "projection_grown"]}.items():  # fmt: skip
        runs = found[found.variant.isin(variants)]
        marks = [line for line in begins.lines if line.get_marker() == DOSES[kind]["marker"]
                 and line.get_color() == DOSES[kind]["color"]]  # fmt: skip
        (there,) = [line for line in marks if line.get_markerfacecolor() != "none"]
        (never,) = [line for line in marks if line.get_markerfacecolor() == "none"]
        got = runs.dropna()
        assert sorted(zip(*there.get_data(), strict=True)) == sorted(
            zip(got.input_rms, got.onset, strict=True)
        )
        assert sorted(never.get_xdata()) == sorted(runs.input_rms[runs.onset.isna()])
        assert (np.asarray(never.get_ydata()) > 400).all() and begins.get_ylim()[1] > max(
            [0, *never.get_ydata()]
        )
    assert sum(len(line.get_xdata()) for line in begins.lines if line.get_marker() != "None") == len(found)
    (words,) = [text.get_text() for text in begins.texts]
    assert words == "not by step 400"
    places = {}
    for line in majority.lines:
        if line.get_marker() != "None":
            for x, y in zip(*line.get_data(), strict=True):
                places.setdefault((DOSES["scale"]["color"] == line.get_color(), y > 6000), []).append(
                    float(x)
                )
    assert {key: sorted(round(x, 2) for x in value) for key, value in places.items()} == {
        (False, False): [0.95, 0.95],
        (False, True): [0.24, 0.24],
        (True, False): [0.13, 0.13, 0.53],
    }

"""What the figures of attention by step draw: losses, worth and onsets of runs whose truth is known."""

import figure_worlds as worlds
import numpy as np
import pytest
from figure_worlds import curve, name, shows, shows_gaps

from layernorm_roles.evidence.analysis.attention_by_step import dose, onsets
from layernorm_roles.evidence.figures.attention_by_step import DOSES


def test_the_paper_s_rate_shows_losses_gaps_worth_and_scores_of_the_variants_compared():
    losses, gaps, worth, scores = worlds.draw("figure_4_paper_rate").axes
    compared = ("layernorm", "projection", "layernorm_shrunk", "projection_grown", "no_attention")
    metrics, looks = worlds.language_model_metrics(), worlds.language_model_attention()
    metrics = metrics[
        (metrics.model == "gpt_paper_rate") & (metrics.step > 0) & metrics.variant.isin(compared)
    ]
    shows_gaps(gaps, metrics, "valid_loss")
    for variant, own in metrics.groupby("variant"):
        shows(curve(losses, name(variant)), own.valid_loss, own.step)
    for variant in compared[:-1]:
        own = looks[(looks.step > 0) & (looks.variant == variant)]
        shows(curve(worth, name(variant)), own.zero_scores_worth, own.step)
        shows(curve(scores, name(variant)), own.score_deviation, own.step)


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
    others = "none no_attention layernorm_qk shrunk_qk projection_matched layernorm_gain".split()
    assert not any(dose(variant, worlds.NORMS, 8) for variant in (*others, worlds.OWN))


def test_dose_and_response_has_a_mark_for_each_run_and_shows_those_that_do_not_get_there():
    sizes = {"d8": worlds.D8 | {"seeds": {"layernorm": 2, "scale_released": 2}}}
    sizes["sizes"] = worlds.D8 | {"seeds": {"quarter": 2, "scale_half": 1, "projection": 1}}
    metrics = worlds.majority_metrics(sizes)
    metrics["test_loss"] = np.where(metrics.step >= 2400, 0.4, 0.6)
    metrics.loc[metrics.variant == "quarter", "test_loss"] = 0.6
    begins, majority = worlds.draw("dose_response", majority_metrics=metrics).axes
    found = onsets(worlds.language_model_attention())
    families = {"layernorm": ("layernorm", "layernorm_shrunk", "quarter"), "shrunk_qk": ("shrunk_qk",)}
    for kind, variants in (families | {"projection": ("projection", "projection_grown")}).items():
        runs = found[found.variant.isin(variants)]
        there, never = (line for line in begins.lines if line.get_label() == DOSES[kind]["label"])
        assert never.get_markerfacecolor() == "none" != there.get_markerfacecolor()
        assert sorted(map(tuple, there.get_xydata())) == sorted(
            zip(runs.dropna().input_rms, runs.dropna().onset, strict=True)
        )
        assert sorted(never.get_xdata()) == sorted(runs.input_rms[runs.onset.isna()])
        assert all(400 < y < begins.get_ylim()[1] for y in never.get_ydata())
    assert sum(len(line.get_xdata()) for line in begins.lines if line.get_marker() != "None") == len(found)
    assert [text.get_text() for text in begins.texts] == ["not by step 400"]
    places = [
        (line.get_label(), round(float(x), 2), bool(y > 6000))
        for line in majority.lines
        if line.get_marker() != "None"
        for x, y in line.get_xydata()
    ]
    normed, scaled = (DOSES[kind]["label"] for kind in ("layernorm", "scale"))
    expected = [(normed, 0.95, False), (normed, 0.24, True)] * 2
    assert sorted(places) == sorted(expected + [(scaled, x, False) for x in (0.13, 0.13, 0.53)])

"""When runs begin to attend, and variants as multiples of a built-in norm."""

import numpy as np
import pytest
import random_world as world

from layernorm_roles.evidence.analysis.attention_by_step import dose, onsets


def test_a_run_begins_to_attend_at_the_first_step_at_which_its_scores_are_worth_as_much():
    table = world.language_model_attention().sample(frac=1, random_state=0)
    every = onsets(table)
    found = every[every.model == "gpt_paper_rate"].set_index(["variant", "seed"])
    assert "no_attention" not in found.index and (found.last_step == 400).all()
    for (variant, seed), run in found.iterrows():
        step = world.BEGINS.get(variant, 999) + 100 * seed
        assert run.onset == step if step <= 400 else np.isnan(run.onset)
    hurts = table.assign(zero_scores_worth=table.zero_scores_worth.where(table.step > 0, -0.5))
    broken = onsets(hurts[hurts.step <= 200])
    assert broken.onset.equals(every.onset.where(every.onset <= 200)) and (broken.last_step == 200).all()
    # The size at step 40, a tenth of the run even if it breaks off, is the mean of both layers.
    assert broken.input_rms.equals(every.input_rms)
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
        found = dose(variant, world.NORMS, 8)
        assert found.family == family and found.size == pytest.approx(size)
    assert dose("layernorm_small", world.NORMS).size == 1, "without a width nothing is divided by it"
    others = "none no_attention layernorm_qk shrunk_qk projection_matched layernorm_gain".split()
    assert not any(dose(variant, world.NORMS, 8) for variant in (*others, world.OWN))

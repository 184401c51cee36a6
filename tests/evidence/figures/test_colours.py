from itertools import combinations

import numpy as np
import pytest
from default_settings import DEFAULT

from layernorm_roles.evidence.figures import colours
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT, SPLIT_VARIANTS, VARIANTS

# Complete dichromacy, in linear RGB: Machado, Oliveira and Fernandes (2009).
VISION = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
ENOUGH = 15
"""CIE 1976 colour difference from which two lines are told apart at a glance; 2 or 3 can just be noticed."""


def lab(colour, vision):
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(matrix @ seen / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_variants_that_meet_in_a_figure_differ_in_colour_or_stroke(vision):
    for settings in (*DEFAULT["majority"].values(), *DEFAULT["language_model"].values()):
        for one, other in combinations([name for name, seeds in settings["seeds"].items() if seeds], 2):
            colour, another = (lab(colours.COLOURS[name], vision) for name in (one, other))
            told_apart = np.linalg.norm(colour - another) >= ENOUGH
            assert told_apart or colours.stroke(one) != colours.stroke(other), (one, other)


def test_every_built_in_variant_has_a_legend_a_colour_and_one_of_its_own():
    known = {*VARIANTS, *SPLIT_VARIANTS, QUERY_KEY_VARIANT, NO_ATTENTION_VARIANT}
    assert set(LEGENDS) == set(colours.COLOURS) == known
    everything = [*colours.COLOURS.values(), *colours.SPARE_COLOURS]
    assert len(set(everything)) == len(everything)


def test_variants_of_one_s_own_take_spare_colours_in_the_order_of_their_names():
    palette = colours.palette(["tanh", "layernorm", "abs"])
    assert (palette["abs"], palette["tanh"]) == colours.SPARE_COLOURS[:2]
    assert colours.label("tanh") == "tanh" and colours.stroke("tanh") == "-"

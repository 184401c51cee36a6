"""Random streams: no two share their draws, and the metadata says how to make each again."""

import itertools
import re

import numpy as np
import pytest

from layernorm_roles import random_streams
from layernorm_roles.random_streams import Stream, generator

INTEGERS = (0, 1, 2, 3, 12, 600, 2**32 - 1)


def test_no_two_streams_share_their_first_draws():
    """Every stream, for every combination of some seeds and settings, those of other streams' numbers among them."""
    seen = {}
    for stream in Stream:
        for integers in itertools.product(INTEGERS, repeat=len(stream.integers)):
            first = tuple(generator(stream, *integers).integers(2**63, size=4))
            assert first not in seen, (stream, integers, seen[first])
            seen[first] = (stream, integers)
    assert len(seen) > 500
    with pytest.raises(TypeError, match="RANDOM_KEYS"):
        generator(Stream.RANDOM_KEYS, 0, 3)


def test_the_sentence_in_the_metadata_makes_the_stream_again():
    text = random_streams.describe((Stream.RANDOM_KEYS, Stream.TEXT_SELECTION), torch=True)
    first, second = re.findall(r"random_streams\.generator\(.*?\)", text)
    assert second.endswith("(Stream.TEXT_SELECTION, seed, texts)") and "torch.manual_seed(seed)" in text
    scope = {"seed": 7, "n": 3, "d": 5, "Stream": Stream, "random_streams": random_streams}
    expected = generator(Stream.RANDOM_KEYS, 7, 3, 5).standard_normal(3)
    np.testing.assert_array_equal(eval(first, scope).standard_normal(3), expected)
    assert random_streams.describe(()) == "nothing is random"

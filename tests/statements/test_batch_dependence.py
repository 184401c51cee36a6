import numpy as np
import pytest
import torch
from default_settings import example

from layernorm_roles.settings.statements import BatchDependence
from layernorm_roles.statements import batch_dependence

SIZES = {"d_model": 8, "tokens": 4, "batch_sizes": [1, 2, 64], "updates": 20, "repeats": 20}
SETTINGS = example(BatchDependence, **SIZES, padding=[0.5, 0.25])


@pytest.fixture(scope="module")
def table():
    return batch_dependence.measure(SETTINGS, seeds=[0, 1])


def test_layernorm_is_exactly_independent_of_the_batch(table):
    assert (table[table.norm == "layernorm"].change == 0).all()


def test_a_sequence_alone_has_no_others(table):
    assert not ((table.effect == "others") & (table.batch_size == 1)).any()


def test_batchnorms_dependence_falls_as_one_over_the_root_of_the_tokens(table):
    """Mean and deviation are estimated from N Gaussian values; between two batches that share a few of them the
    output x moves by sqrt((2 + x^2) / N), root mean square sqrt(3 / N), to first order and N large."""
    change = table[
        (table.norm == "batchnorm") & (table.effect == "others") & (table.batch_size == 64)
    ].change.mean()
    n = 64 * SETTINGS.tokens
    assert change == pytest.approx(np.sqrt(3 / n), rel=0.1)


def test_padding_moves_batchnorm_by_the_lost_variance(table):
    """Half of the values 0: the variance halves, x grows by sqrt(2); with a quarter of them, by sqrt(4/3)."""
    part = table[(table.norm == "batchnorm") & (table.effect == "padding") & (table.batch_size == 64)]
    change = part.groupby("padding").change.mean().to_dict()  # to first order in large batches
    assert change == pytest.approx({0.5: 2**0.5 - 1, 0.25: (4 / 3) ** 0.5 - 1}, rel=0.1)


@pytest.mark.parametrize("updates", [1, 100])
def test_evaluation_uses_the_statistics_of_earlier_batches_and_of_no_others(updates):
    """Earlier batches have mean 5 and deviation 2, the first one 3 and 1: x becomes x - 3 in training.

    The running mean and variance start at 0 and 1, of which each earlier batch leaves nine tenths, torch's default.
    """
    rng = np.random.default_rng(0)
    earlier = [torch.from_numpy(5 + 2 * rng.standard_normal((50, 40, 3))) for _ in range(updates)]
    first, second = (torch.from_numpy(3 + rng.standard_normal((500, 40, 3))) for _ in range(2))
    x, start = first[0, 0], 0.9**updates
    moved = batch_dependence.rms(x - 3 - (x - 5 * (1 - start)) / (start + 4 * (1 - start)) ** 0.5)
    expected = {"batchnorm": pytest.approx(moved, rel=0.02), "layernorm": 0}
    for name in batch_dependence.NORMS:
        effects = batch_dependence._effects(name, first, second, earlier, (0.5,))
        changes = {effect: change for effect, _, change in effects}
        assert changes["mode"] == expected[name]

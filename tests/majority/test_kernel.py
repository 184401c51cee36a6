"""The compiled kernel against autograd; its exactness in float32; its edges."""

import numpy as np
import pytest
import torch

from layernorm_roles.majority import kernel
from layernorm_roles.majority.model import pair_loss
from layernorm_roles.majority.parameters import LossParameters, shapes


def batch_of(sequences, classes, length, seed=0):
    """Counts with about 43 % of the classes present, and the most frequent class; the last of many is absent."""
    rng = np.random.default_rng([seed, sequences, classes])
    counts = np.zeros((sequences, classes), dtype=np.uint8)
    usable = classes - 1 if classes > 2 else classes
    for row in counts:
        present = rng.permutation(usable)[: max(1, rng.binomial(usable, 0.43))]
        row[present] = rng.multinomial(length, rng.dirichlet(np.ones(len(present))))
    return counts, counts.argmax(axis=1)


def parameters_of(classes, d_model, d_ff, size=1.0, peak=1.0, seed=0):
    """Random float64 parameters; `size` scales all but the scores of the attention, whose spread is about `peak`."""
    rng = np.random.default_rng([seed, classes, d_model, d_ff])
    of = shapes(classes, d_model, d_ff)
    parameters = LossParameters(*(0.4 * size * rng.standard_normal(shape) for shape in of))
    normed, w = rng.standard_normal(of.normed), rng.standard_normal(of.in_weight) / np.sqrt(d_model)
    w[:d_model] *= peak
    values = rng.standard_normal(of.normed_values)
    scaled = {"embedding": 2.5 * parameters.embedding, "norm_gain": 1 + parameters.norm_gain}
    return parameters._replace(normed=normed, normed_values=values, in_weight=w, **scaled)


def largest_error(gradients, expected):
    """Largest error of any gradient, relative to the largest entry of its array's (or 1e-3 if that is less)."""
    pairs = zip(gradients, expected, strict=True)
    return max(np.abs(g - e).max() / max(np.abs(e).max(), 1e-3) for g, e in pairs)


def assert_equals_autograd(counts, label, parameters):
    loss, correct, gradients = kernel.loss_and_gradients(counts, label, parameters)
    leaves = LossParameters(*(torch.tensor(array, requires_grad=True) for array in parameters))
    expected_loss, expected_correct = pair_loss(leaves, torch.from_numpy(counts), torch.from_numpy(label))
    assert loss == pytest.approx(expected_loss.item(), rel=1e-12) and correct == expected_correct.item()
    expected = [gradient.numpy() for gradient in torch.autograd.grad(expected_loss, leaves)]
    assert largest_error(gradients, expected) < 1e-10


def in_dtype(parameters, dtype):
    return LossParameters(*(array.astype(dtype) for array in parameters))


# sequences, classes, d_model, d_ff, length: the experiments', more than one block, and nothing a multiple of a tile
SIZES = [(600, 20, 8, 8, 50), (257, 20, 3, 3, 50), (1, 2, 3, 5, 3), (700, 7, 5, 11, 13), (40, 3, 16, 1, 200)]
REGIMES = {"initial": (1.0, 0.3), "trained": (2.0, 4.0), "peaked": (2.0, 12.0)}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gradients_equal_autograd(size, regime):
    sequences, classes, d_model, d_ff, length = size
    counts, label = batch_of(sequences, classes, length)
    assert_equals_autograd(counts, label, parameters_of(classes, d_model, d_ff, *REGIMES[regime]))


@pytest.mark.parametrize("regime", ["initial", "trained"])
def test_float32_is_as_exact_as_its_inputs(regime):
    counts, label = batch_of(3000, 20, 50)
    single = in_dtype(parameters_of(20, 8, 8, *REGIMES[regime]), np.float32)
    loss, correct, gradients = kernel.loss_and_gradients(counts, label, single)
    expected = kernel.loss_and_gradients(counts, label, in_dtype(single, np.float64))
    assert {gradient.dtype for gradient in gradients} == {np.dtype(np.float32)}
    assert loss == pytest.approx(expected[0], rel=1e-6) and abs(correct - expected[1]) <= 50
    assert largest_error(gradients, expected[2]) < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loss_alone_and_a_second_call_give_the_same_bytes_and_nan_stays_nan(dtype):
    counts, label = batch_of(1000, 20, 50)
    parameters = in_dtype(parameters_of(20, 6, 8), dtype)
    loss, correct, gradients = kernel.loss_and_gradients(counts, label, parameters)
    again, _, gradients_again = kernel.loss_and_gradients(counts, label, parameters)
    assert kernel.loss_only(counts, label, parameters) == (loss, correct) and again == loss
    for gradient, other in zip(gradients, gradients_again, strict=True):
        assert gradient.tobytes() == other.tobytes()
    for name in LossParameters._fields:
        spoilt = in_dtype(parameters, dtype)
        getattr(spoilt, name).reshape(-1)[0] = np.nan
        lost, _, gradients = kernel.loss_and_gradients(counts, label, spoilt)
        assert np.isnan(lost) and np.isnan(gradients.embedding).any(), name
    assert kernel.loss_only(counts, label, parameters) == (loss, correct), "nothing is left of it"


def test_the_first_of_tied_classes_is_the_prediction():
    counts, label = batch_of(300, 5, 50)
    parameters = parameters_of(5, 4, 4)
    parameters.embedding[:] = parameters.embedding[0]
    _, correct = kernel.loss_only(counts, label, parameters)
    assert correct == 50 * (label == 0).sum() > 0


def test_a_class_that_a_sequence_lacks_is_nothing_to_it_although_its_weights_underflow():
    """The query of class 0 sees its own key alone, so that without the class its sum of weights is 0."""
    counts, label = batch_of(40, 5, 50)
    parameters = parameters_of(5, 4, 4)
    parameters.in_weight[:8], parameters.normed[:, 0] = 0, 0
    parameters.in_weight[[0, 4], 0], parameters.normed[0, 0] = 1, 100
    assert (counts[:, 0] == 0).any()
    assert_equals_autograd(counts, label, parameters)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c, label, t: (c.astype(np.int64), label, t), "counts are int64"),
        (lambda c, label, t: (c[:, :4], label, t), "expected uint8"),
        (lambda c, label, t: (0 * c, label, t), "not all 0"),
        (lambda c, label, t: (c, label + 1, t), "below 5"),
        (lambda c, label, t: (c, label - 1, t), "below 5"),
        (lambda c, label, t: (c, label[:-1], t), "labels of shape"),
        (lambda c, label, t: (c, label, t._replace(w2=t.w2.T[:, :2])), "parameter w2"),
        (lambda c, label, t: (c, label, t._replace(b2=t.b2.astype(np.float32))), "parameter b2 is float32"),
        (lambda c, label, t: (c, label, in_dtype(t, np.float16)), "parameter normed is float16"),
    ],
)
def test_what_does_not_fit_is_named(change, named):
    counts, label = batch_of(30, 5, 50)
    label[:2] = 4, 0
    with pytest.raises(ValueError, match=named):
        kernel.loss_only(*change(counts, label, parameters_of(5, 4, 3)))

"""For a machine with a GPU: `pytest -m gpu`. Twenty steps twice and on the CPU; and resumed."""

from functools import partial

import hand_made
import numpy as np
import pytest
import torch
from default_settings import example

from layernorm_roles.checkpoint import Checkpoint
from layernorm_roles.gpu.agreement import derivatives
from layernorm_roles.gpu.device import open_device
from layernorm_roles.language_model import tasks, train
from layernorm_roles.language_model.operators import operators
from layernorm_roles.majority import data
from layernorm_roles.majority import train as majority
from layernorm_roles.settings.majority import MajorityTraining

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use"),
]
STEPS = {"steps": 20, "evaluate_every": 5}


@pytest.fixture(scope="module")
def gpu():
    return open_device("cuda")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = hand_made.contexts(("long", rng.integers(6, size=16)), ("sentences", rng.integers(6, size=9)))
    streams = (rng.integers(300, size=n) for n in (3000, 500))
    return hand_made.prepared_text(tmp_path_factory.mktemp("text"), *streams, frame)


def trained(text, settings, device=None, kept=None, **changes):
    """Metrics and final weights, in float64, of a run without dropout unless `changes` of the settings say so."""
    settings = hand_made.changed(settings, **{"dropout": 0.0, **STEPS, **changes})
    run = hand_made.run_of(text, settings)
    task = tasks.build(settings, text, run.tokenizer, seed=0)
    result = train.train(run.build_model(), task, settings, 0, device, kept)
    weights = {name: tensor.double().cpu() for name, tensor in result.final.items()}
    return result.metrics.drop(columns="seconds"), weights


def assert_equal_to_the_bit(weights, others):
    """Also where both are NaN, as the weights of a run that has diverged."""
    for name, tensor in weights.items():
        np.testing.assert_array_equal(tensor.cpu(), others[name].cpu(), err_msg=name)


@pytest.mark.parametrize("settings", [hand_made.SMALL_GPT, hand_made.SMALL_BERT], ids=["gpt", "bert"])
def test_a_training_is_equal_to_the_bit_when_repeated_and_close_to_the_cpu(text, settings, gpu):
    metrics, weights = trained(text, settings, gpu)
    other_metrics, other_weights = trained(text, settings, gpu)
    assert metrics.equals(other_metrics)
    assert_equal_to_the_bit(weights, other_weights)
    cpu_metrics, _ = trained(text, settings)
    for column in ("train_loss", "valid_loss"):
        np.testing.assert_allclose(metrics[column], cpu_metrics[column], rtol=1e-3)


class Ended(Checkpoint):
    """A checkpoint whose first writing ends the run, as a kill does."""

    def save(self, *state):
        super().save(*state)
        raise InterruptedError


@pytest.mark.parametrize(
    ("settings", "dropouts"),
    [
        (hand_made.SMALL_GPT, {"dropout": 0.1, "attention_dropout": 0.1}),
        (hand_made.SMALL_BERT, {"dropout": 0.1}),
    ],
    ids=["gpt", "bert"],
)
def test_with_dropout_a_training_is_repeated_and_goes_on_when_killed_to_the_bit(
    text, settings, dropouts, gpu, tmp_path
):
    """The paper trains with both dropouts, for which a card has other kernels of attention."""
    changes = {**dropouts, "checkpoint_every": 10}
    metrics, weights = trained(text, settings, gpu, **changes)
    place = tmp_path / "checkpoint.safetensors"
    with pytest.raises(InterruptedError):
        trained(text, settings, gpu, Ended(place, {}), **changes)
    others = [trained(text, settings, gpu, Checkpoint(place, {}), **changes)]
    others.append(trained(text, settings, gpu, **changes))
    for other_metrics, other_weights in others:
        assert metrics.equals(other_metrics)
        assert_equal_to_the_bit(weights, other_weights)
    assert not metrics.equals(trained(text, settings, gpu)[0]), "dropout does something"


@pytest.mark.parametrize("settings", [hand_made.SMALL_GPT, hand_made.SMALL_BERT], ids=["gpt", "bert"])
def test_one_batch_agrees_with_the_cpu_and_the_operators_with_float64(text, settings, gpu):
    run = hand_made.run_of(text, settings)
    gpu.check(operators(run.settings, run.tokenizer.get_vocab_size()), "test")
    task = tasks.build(settings, text, run.tokenizer, seed=0)
    gpu.compare(partial(derivatives, run.build_model(), task.validation[0]), "test")


def test_the_majority_task_is_trained_as_before_and_close_to_the_cpu(gpu):
    """Batches of 100, and the last one of an epoch with 80."""
    sizes = {"sequences": 600, "sequence_length": 20, "classes": 6, "majority_gap": 3}
    sizes |= {"labellings": 5, "d_ff": 5}
    steps = {"batch_size": 100, "steps": 40, "schedule_steps": 40, "evaluate_every": 10}
    draws = {"sampling": "uniform", "split": "rows", "test_share": 0.2}
    settings = example(MajorityTraining, **sizes, **steps, **draws)
    table = data.generate(settings, seed=0)
    parts = table.groupby("split")
    sets = {name: data.Sequences(np.stack(p.counts), p.label.to_numpy().copy()) for name, p in parts}
    run = majority.MajorityRun("small", "layernorm", "layernorm", 0, 4, 0.01)
    once, again, cpu = (majority.train(settings, run, sets, place) for place in (gpu, gpu, None))
    assert once.metrics.equals(again.metrics)
    assert_equal_to_the_bit(once.model.state_dict(), again.model.state_dict())
    np.testing.assert_allclose(once.metrics.test_loss, cpu.metrics.test_loss, rtol=1e-3)

"""For a machine with a GPU: `pytest -m gpu`. Twenty steps twice and on the CPU, resumed, and without waiting."""

import hand_made
import numpy as np
import pytest
import torch
from default_settings import example
from interrupted import killed_after

from layernorm_roles.checkpoint import Checkpoint
from layernorm_roles.gpu.device import open_device
from layernorm_roles.language_model import tasks, train
from layernorm_roles.majority import data
from layernorm_roles.majority import train as majority
from layernorm_roles.settings.majority import MajorityTraining

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]


@pytest.fixture(scope="module")
def gpu():
    return open_device("cuda")


def trained(text, settings, device=None, kept=None):
    run = hand_made.run_of(text, settings)
    task = tasks.build(settings, text, run.tokenizer, seed=0)
    result = train.train(run.build_model(), task, settings, 0, device, kept)
    weights = {name: tensor.double().cpu() for name, tensor in result.final.items()}
    return result.metrics.drop(columns="seconds"), weights


def assert_equal_to_the_bit(found, expected):
    """Of metrics and weights, also where both are NaN, as the weights of a run that has diverged."""
    (metrics, weights), (other_metrics, others) = found, expected
    assert metrics.equals(other_metrics)
    for name, tensor in weights.items():
        np.testing.assert_array_equal(tensor.cpu(), others[name].cpu(), err_msg=name)


@pytest.mark.parametrize("base", [hand_made.SMALL_GPT, hand_made.SMALL_BERT], ids=["gpt", "bert"])
def test_a_training_is_repeated_to_the_bit_and_is_close_to_the_cpu(disjoint_text, base, gpu, tmp_path):
    """Also when it was killed. For dropout a card has other kernels of attention, and the CPU other draws."""
    plain = hand_made.changed(base, steps=20, evaluate_every=5, checkpoint_every=10, dropout=0.0)
    dropout = hand_made.changed(plain, dropout=0.1)
    if base is hand_made.SMALL_GPT:
        dropout = hand_made.changed(dropout, attention_dropout=0.1)
    for settings in (plain, dropout):
        found, place = trained(disjoint_text, settings, gpu), tmp_path / f"{settings.dropout}.safetensors"
        with killed_after(1):
            trained(disjoint_text, settings, gpu, Checkpoint(place, {}))
        assert_equal_to_the_bit(trained(disjoint_text, settings, gpu, Checkpoint(place, {})), found)
        assert_equal_to_the_bit(trained(disjoint_text, settings, gpu), found)
        one, other = found[0], trained(disjoint_text, plain)[0]
        losses = ["train_loss", "valid_loss"]
        assert np.allclose(one[losses], other[losses], rtol=1e-3, atol=0) == (settings is plain)


def test_a_step_does_not_wait_for_the_gpu(disjoint_text, gpu):
    run = hand_made.run_of(disjoint_text, hand_made.SMALL_GPT)
    task, network = tasks.build(run.settings, disjoint_text, run.tokenizer, 0), run.build_model().cuda()
    training = train._Training(network.train(), task, run.settings, "cuda", run.name)
    [training.take_step() for _ in range(3)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        training.take_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_majority_task_is_trained_as_before_and_close_to_the_cpu(gpu):
    """Batches of 100, and the last one of an epoch with 80."""
    sizes = {"sequences": 600, "sequence_length": 20, "classes": 6, "majority_gap": 3}
    sizes |= {"labellings": 5, "d_ff": 5}
    steps = {"batch_size": 100, "steps": 40, "schedule_steps": 40, "evaluate_every": 10}
    draws = {"sampling": "uniform", "split": "rows", "test_share": 0.2}
    settings = example(MajorityTraining, **sizes, **steps, **draws)
    parts = data.generate(settings, seed=0).groupby("split")
    sets = {name: data.Sequences(np.stack(p.counts), p.label.to_numpy().copy()) for name, p in parts}
    run = majority.MajorityRun("small", "layernorm", "layernorm", 0, 4, 0.01)
    once, again, cpu = (majority.train(settings, run, sets, place) for place in (gpu, gpu, None))
    of_again = again.metrics, again.model.state_dict()
    assert_equal_to_the_bit((once.metrics, once.model.state_dict()), of_again)
    np.testing.assert_allclose(once.metrics.test_loss, cpu.metrics.test_loss, rtol=1e-3)

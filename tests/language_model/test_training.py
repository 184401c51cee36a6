"""Training: known losses and steps of toy models, resumed runs to the byte, checkpoints that do not fit."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hand_made import SMALL_BERT, SMALL_GPT, changed, labelled, measured, plan_of, run_of, trained
from interrupted import killed_after
from torch import nn

from layernorm_roles import checkpoint, ones_direction, random_streams, store
from layernorm_roles.gpu.device import Device
from layernorm_roles.language_model import parallel, tasks, train
from layernorm_roles.variants import BERT_VARIANTS
from layernorm_roles.variants import BUILT_IN as GPT_VARIANTS

DIAGNOSED = changed(SMALL_GPT, steps=20, diagnose_every=10)
SCHEDULE = changed(SMALL_GPT, steps=10, evaluate_every=4, learning_rate=0.1)


class ToyTask(tasks.Task):
    """A training batch holds numbers that the step gives; the validation batches are two, of different sizes."""

    streams, validation, unigram_loss = (), [(np.full(3, 1000),), (np.full(1, 3000),)], 4.5

    def __init__(self, number=lambda step: step):
        self.number = number

    def batch(self, step):
        return (np.full(3, self.number(step)),)


class ToyModel(nn.Module):
    """One parameter; `loss_of` computes the loss from it and from a batch of numbers."""

    def __init__(self, loss_of):
        super().__init__()
        self.w, self.loss_of = nn.Parameter(torch.tensor(2.0)), loss_of

    def loss(self, numbers):
        return self.loss_of(self, numbers.double()) + 0 * self.w


def test_rows_hold_the_mean_training_loss_since_the_last_row_and_the_validation_loss():
    """The loss of a training batch is its step plus 5, that of the validation text the mean over its four rows."""
    task = ToyTask(lambda step: step + 5)
    metrics = train.train(ToyModel(lambda _, numbers: numbers.mean()), task, SCHEDULE, seed=0).metrics
    assert metrics.step.tolist() == [0, 4, 8, 10] and metrics.tokens.tolist() == [0, 256, 512, 640]
    assert metrics.train_loss.tolist() == [5, np.mean([5, 6, 7, 8]), np.mean([9, 10, 11, 12]), 13.5]
    assert metrics.valid_loss.tolist() == [(3 * 1000 + 3000) / 4] * 4
    assert metrics.unigram_loss.tolist() == [4.5] * 4
    rates = metrics.learning_rate.tolist()
    assert rates == pytest.approx([0.1, 0.07, 0.03, 0.01]), "of the step before the row"


@pytest.mark.parametrize(("clip", "warmup"), [(1.0, 0), (3.0, 4), (1e6, 0)])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_are_adamws_with_clipped_gradients_and_a_falling_rate(clip, warmup, decay):
    """The loss is a number times the parameter, so the number is its gradient."""
    gradients = [2, -40, 1, 5, -1, 600, 3, 2, -7, 1]
    settings = changed(SCHEDULE, gradient_clip=clip, weight_decay=decay, warmup=warmup)
    model = ToyModel(lambda model, numbers: numbers.mean() * model.w)
    result = train.train(model, ToyTask(gradients.__getitem__), settings, seed=0)
    known = nn.Parameter(torch.tensor(2.0))
    optimiser, rates = torch.optim.AdamW([known], weight_decay=decay), []
    for step, gradient in enumerate(gradients):
        rates.append(0.1 * (1 - step / 10) * min(1, (step + 1) / (warmup or 1)))
        optimiser.param_groups[0]["lr"] = rates[step]
        known.grad = torch.tensor(gradient * min(1.0, clip / abs(gradient)))
        optimiser.step()
    assert result.final["w"].item() == pytest.approx(known.item(), abs=1e-5)
    assert result.metrics.learning_rate.tolist() == pytest.approx([rates[0], rates[3], rates[7], rates[9]])


def test_a_schedule_may_go_on_after_the_training_and_adams_epsilon_is_a_setting():
    """Of two trainings on one schedule the shorter is the beginning of the longer, and not of one that ends with it."""
    toy = lambda: ToyModel(lambda model, numbers: (numbers.mean() + 1) * 1e-6 * model.w)  # noqa: E731
    longer = changed(SCHEDULE, steps=8, schedule_steps=20, evaluate_every=4)
    runs = {
        name: train.train(toy(), ToyTask(), changed(longer, **keys), seed=0)
        for name, keys in {
            "longer": {},
            "shorter": {"steps": 4},
            "own": {"steps": 4, "schedule_steps": None},
            "small": {"adam_eps": 1e-12},
        }.items()
    }
    assert runs["shorter"].metrics.learning_rate.tolist() == pytest.approx([0.1, 0.1 * 17 / 20])
    assert runs["own"].metrics.learning_rate.tolist() == pytest.approx([0.1, 0.1 * 1 / 4])
    moved = {name: 2.0 - run.final["w"].item() for name, run in runs.items()}
    assert moved["own"] < moved["shorter"] < moved["longer"] < moved["small"]


@pytest.mark.parametrize("variant", ["layernorm", "projected_qk"])
def test_the_factor_is_on_the_rate_of_queries_and_keys_alone(text, variant):
    """After one step W_Q and W_K have moved by the factor times what they move without; all else is equal."""
    moved = {}
    for factor in (1.0, 8.0, 1 / 8):
        run = run_of(text, changed(SMALL_GPT, steps=1, query_key_rate=factor, gradient_clip=1e6), variant)
        task = tasks.build(run.settings, text, run.tokenizer, run.seed, None)
        result = train.train(run.build_model(), task, run.settings, run.seed)
        moved[factor] = {name: result.final[name] - result.initial[name] for name in result.final}
    d = SMALL_GPT.d_model
    for name, step in moved[1.0].items():
        for factor in (8.0, 1 / 8):
            expected = step.clone()
            if name.endswith("qkv.weight"):
                expected[: 2 * d] *= factor
            assert torch.allclose(moved[factor][name], expected, atol=1e-7), name
    assert any(name.endswith("qkv.weight") for name in moved[1.0])


def diverging(at: int) -> ToyModel:
    """A model whose loss is infinite on batch `at`, and not a number after it."""
    return ToyModel(lambda model, numbers: 1 / (numbers.mean() - at))


def test_a_run_whose_loss_stops_being_finite_is_worse_than_any_other_from_there_on(capsys):
    for at in (0, 1000):  # of training alone, and of validation alone
        with pytest.raises(ValueError, match="title: the loss is not finite at step 0; expected a finite"):
            train.train(diverging(at), ToyTask(), SCHEDULE, 0, title="title")
    result = train.train(diverging(5), ToyTask(), SCHEDULE, 0, title="title")
    whole = train.train(ToyModel(lambda model, numbers: numbers.mean()), ToyTask(), SCHEDULE, 0).metrics
    metrics, known, losses = result.metrics, ["step", "tokens", "learning_rate"], ["train_loss", "valid_loss"]
    assert metrics[known].equals(whole[known])
    before = metrics.step < 8
    assert np.isfinite(metrics.loc[before, losses]).all(axis=None)
    assert np.isposinf(metrics.loc[~before, losses]).all(axis=None) and (~before).any()
    assert all(tensor.isnan().all() for tensor in result.final.values())
    assert all(tensor.isfinite().all() for tensor in result.initial.values())
    assert "title: the loss is no longer finite at step 8" in capsys.readouterr().out


def read(out):
    metrics = store.read(out["metrics"], "language_model_metrics")
    return metrics.drop(columns="seconds"), checkpoint.load(out["weights"])[0]


def everything(out):
    return *(Path(out[kind]).read_bytes() for kind in ("weights", "attention")), read(out)[0].to_csv()


@pytest.mark.parametrize(
    ("settings", "variant", "checkpoints"),
    [(DIAGNOSED, "projection_matched", (2, 3, 5)), (SMALL_BERT, "layernorm", (1, 3, 4))],
)
def test_a_killed_batch_resumes_to_the_same_bytes(text, tmp_path, settings, variant, checkpoints):
    """It is killed in its first run, at the end of it, and in the second; a finished run is not trained again."""
    runs = [run_of(text, settings, variant, seed) for seed in (1, 2)]
    whole, taken, step = trained(runs, tmp_path / "whole"), [], train._Training.take_step
    for number in checkpoints:
        folder = tmp_path / str(number)
        with killed_after(number):
            trained(runs, folder)
        assert list(folder.glob("checkpoint_*")) and not (folder / "weights.file").exists()
        torch.manual_seed(999)
        with patch.object(train._Training, "take_step", autospec=True, side_effect=step) as steps:
            resumed = trained(runs, folder)
        taken.append(steps.call_count)
        assert everything(resumed) == everything(whole) and not list(folder.glob("checkpoint_*"))
        for _, part in store.read(resumed["metrics"], "language_model_metrics").groupby("seed"):
            assert part.seconds.is_monotonic_increasing and part.seconds.iloc[0] > 0, "with the time before"
    every, last = settings.checkpoint_every, settings.steps
    saved = [*range(every, last, every), last]
    kept = [*saved, *(last + step for step in saved)]
    assert taken == [2 * last - kept[number - 1] for number in checkpoints]


def test_a_foreign_checkpoint_is_named_and_not_used(text, disjoint_text, tmp_path, capsys):
    short = changed(SMALL_GPT, steps=12)
    run, other = (run_of(text, each, "projection") for each in (short, changed(short, weight_decay=0.02)))
    elsewhere = run_of(disjoint_text, short, "projection")
    whole = trained([run], tmp_path / "whole")
    for killed, changes, said in (
        (other, {}, "settings.weight_decay = 0.02"),
        (elsewhere, {}, "text"),
        (run, {"code": "edited"}, "code"),
        (run, {"norm_code": {"projection": "edited"}}, "code"),
        (replace(run, norm="scale"), {}, "norm"),
        (run, {}, "device"),
    ):
        with killed_after(1), patch.object(Device, "identity", "cuda" if said == "device" else "cpu"):
            trained([killed], tmp_path, **changes)
        out = trained([run], tmp_path)
        assert f"a file of another run ({said}" in capsys.readouterr().err
        assert everything(out) == everything(whole)


def test_runs_of_a_batch_share_initial_weights_and_batches_and_each_is_as_if_alone(text, tmp_path):
    """They differ in their rate, their length, or their variant alone, and say so in their tables."""
    points = [("layernorm", 0.01, 14), ("layernorm", 0.02, 14), ("layernorm", 0.01, 28), ("none", 0.01, 14)]
    runs = [run_of(text, changed(SMALL_GPT, learning_rate=rate, steps=n), name) for name, rate, n in points]
    out = trained(runs, tmp_path)
    (table, weights), columns = read(out), ["variant", "base_learning_rate", "steps"]
    parts = [table[(table[columns] == [*point]).all(axis=1)].reset_index(drop=True) for point in points]
    assert sum(map(len, parts)) == len(table)
    for run, (_, rate, steps), metrics in zip(runs, points, parts, strict=True):
        metrics_alone, weights_alone = read(trained([run], tmp_path / "alone"))
        assert metrics.equals(metrics_alone) and metrics.step.max() == steps
        for name, tensor in weights_alone.items():
            assert torch.equal(tensor, weights[name])
            *_, kind, parameter = name.split("/")
            assert kind == "final" or torch.equal(tensor, weights[f"{runs[0].name}/initial/{parameter}"])
        rates = [rate * (1 - max(step - 1, 0) / steps) for step in metrics.step]
        assert metrics.learning_rate.tolist() == pytest.approx(rates)
    assert len({metrics.train_loss[0] for metrics in parts[:3]}) == 1
    assert len({metrics.valid_loss.iloc[-1] for metrics in parts}) == 4
    keys = measured(runs, out["weights"], tmp_path, "keys", leave_out=[run.name for run in runs[:3]])["keys"]
    variants = set(store.read(keys, "key_selectability").variant)
    assert variants == {"none"}, "a part of the batch may be measured"


@pytest.mark.parametrize("settings", [SMALL_GPT, SMALL_BERT])
def test_all_variants_of_a_seed_drop_the_same_units(text, settings):
    """Each dropout is given ones, of which 0 is left where it drops; and the generators end in one state."""
    gpt = settings is SMALL_GPT
    settings = changed(settings, steps=3, dropout=0.3, **{"attention_dropout": 0.2} if gpt else {})
    found, variants = [], GPT_VARIANTS if gpt else BERT_VARIANTS
    for variant, seed in (("layernorm", 1), *((name, 0) for name in variants)):
        run, dropped = run_of(text, settings, variant, seed), []
        network = run.build_model()
        for module in (module for module in network.modules() if isinstance(module, nn.Dropout)):
            module.register_forward_pre_hook(lambda _, given: (given[0] * 0 + 1,))
            module.register_forward_hook(lambda _, given, out, dropped=dropped: dropped.append(out == 0))
        train.train(network, tasks.build(settings, text, run.tokenizer, run.seed), settings, run.seed)
        masks = torch.stack([mask for mask in dropped if mask.any()])  # the others are of evaluations
        found.append((masks, torch.get_rng_state()))
    (of_another_seed, _), (masks, state), *others = found
    assert len(masks) == 3 * (1 + 2 * settings.layers) and 0.25 < masks.float().mean() < 0.35
    assert all(torch.equal(masks, theirs) and torch.equal(state, end) for theirs, end in others)
    assert not torch.equal(masks, of_another_seed)


def test_a_training_does_not_depend_on_the_number_of_threads(text, monkeypatch):
    """Of batches of several parts, with both kinds of dropout; torch, whose sums depend on it, has one thread."""
    monkeypatch.setattr(parallel, "TOKENS", 24)
    dropout = {"dropout": 0.1, "attention_dropout": 0.1}
    run = run_of(text, changed(SMALL_GPT, d_model=16, steps=4, evaluate_every=1, **dropout), "scale")
    task, found = tasks.build(run.settings, text, run.tokenizer, run.seed), []
    for threads in (3, 2, 1):
        torch.set_num_threads(2)
        parallel.use(threads)
        assert torch.get_num_threads() == 1
        metrics = train.train(run.build_model(), task, run.settings, run.seed).metrics
        found.append(metrics[["train_loss", "valid_loss"]].to_numpy().tolist())
    assert found[0] == found[1] == found[2] and len(set(map(tuple, found[0]))) == 5


@pytest.mark.parametrize("settings", [SMALL_GPT, SMALL_BERT])
def test_metrics_and_learning(text, tmp_path, settings):
    run = run_of(text, settings)
    out = trained([run], tmp_path)
    metrics, weights = read(out)
    first, last = metrics.valid_loss.iloc[[0, -1]]
    assert first == pytest.approx(np.log(300), abs=0.1)
    assert last < first - (0.5 if settings is SMALL_GPT else 0.1)
    # The text has six words, equally frequent.
    assert metrics.unigram_loss.tolist() == pytest.approx([np.log(6)] * len(metrics), abs=0.15)
    about = store.read_provenance(out["metrics"])
    assert about["seed_rule"] == random_streams.describe(tasks.task_type(settings).streams, torch=True)
    assert json.loads(about["config"]) == plan_of([run]) == checkpoint.load(out["weights"])[1]["identity"]
    # The weights are those of the first and of the last row.
    task = tasks.build(settings, text, run.tokenizer, run.seed)
    for name, loss in (("initial", first), ("final", last)):
        restored = run.restore_model(weights, name)
        assert train.validation_loss(restored, task, "cpu") == pytest.approx(loss, rel=1e-6)


def test_what_does_not_fit_shows_before_training(text, tmp_path):
    for context_length, message in (
        (8, r"context \d of the long texts has \d+ tokens; the model reads at most 8"),
        (4000, r"training\.npy: \d+ tokens; expected more than one window of 4000"),
    ):
        run = run_of(text, changed(SMALL_GPT, context_length=context_length))
        with pytest.raises(ValueError, match=rf"^language_model\.{run.model}: .*{message}"):
            trained([run], tmp_path)
        assert not list(tmp_path.iterdir())


def test_sentences_with_labels_train(text, tmp_path):
    rows = {"sentence": ["w7 w8", "w9 w1 w2 w11"] * 12, "label": [0, 1] * 12}
    settings = labelled(tmp_path, {"train": rows, "validation": rows}, steps=60)
    run = run_of(text, settings, seed=2)
    out = trained([run], tmp_path, downloads=[*tmp_path.glob("*.parquet")])
    metrics, weights = read(out)
    assert metrics.valid_loss[0] == pytest.approx(np.log(2), abs=0.05)
    assert metrics.valid_loss.iloc[-1] < 0.5 and metrics.unigram_loss.isna().all()
    assert "Stream.LABELLED_BATCHES" in store.read_provenance(out["metrics"])["seed_rule"]
    tables = measured([run], out["weights"], tmp_path, "keys")
    # What enters the norms on the first context, which BERT reads after its class token.
    first, network = run.contexts().iloc[0], run.restore_model(weights, "final").double().eval()
    tokens = store.read(tables["tokens"], "sentence_tokens").query("checkpoint == 'final' and layer == 2")
    spelt = tokens.token[tokens.context == first.context].tolist()
    assert spelt == ["[CLS]", *(f"w{token}" for token in first.tokens)]
    window = torch.tensor([[*run.prefix, *first.tokens]])
    known = ones_direction.table(network, lambda: network(window))
    ones = store.read(tables["ones_share"], "language_model_ones_share").query("checkpoint == 'final'")
    assert ones.ones_share.tolist() == pytest.approx(known.ones_share.tolist(), rel=1e-12)
    columns = {"context": first.context, "model": "hand_made", "variant": "layernorm", "seed": 2}
    assert (ones[[*columns]] == [*columns.values()]).all(axis=None)

"""Training runs: equal bytes, resumption, the released optimisation, and metrics as an oracle on tokens has them."""

import json
from itertools import chain, islice

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example
from interrupted import killed_after
from oracle import loss_and_correct
from planned import planned
from scipy.special import softmax
from scipy.stats import entropy

from layernorm_roles import checkpoint, store
from layernorm_roles.gpu.device import Device
from layernorm_roles.majority import data, kernel, train
from layernorm_roles.majority.evaluation import evaluation_steps
from layernorm_roles.majority.gradients import compiled_gradient
from layernorm_roles.majority.model import MajorityTransformer
from layernorm_roles.majority.train import MajorityRun
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.majority import MajorityTraining

SIZES = {"sequence_length": 20, "classes": 6, "majority_gap": 3, "sequences": 600, "labellings": 5, "d_ff": 5}
DRAWS = {"sampling": "uniform", "split": "rows", "test_share": 0.2}
STEPS = {"batch_size": 100, "steps": 60, "schedule_steps": 120, "evaluate_every": 20, "checkpoint_every": 7}


def task(**changes):
    return example(MajorityTraining, **SIZES | DRAWS | STEPS | changes)


def run_of(norm, seed, d_model=4, learning_rate=0.01):
    return MajorityRun(f"small/{norm}/{seed}", "small", norm, norm, seed, d_model, learning_rate)


@pytest.fixture(scope="module")
def sets():
    parts = data.generate(task(), seed=0).groupby("split")
    return {name: data.Sequences(np.stack(p.counts), p.label.to_numpy(copy=True)) for name, p in parts}


def counted(taken):
    """A `compiled_gradient` that appends an entry to `taken` at each step."""

    def watched(model, flat):
        set_gradient = compiled_gradient(model, flat)
        return lambda *batch: taken.append(batch) or set_gradient(*batch)

    return watched


@pytest.mark.parametrize("variant", ["scale", "layernorm_affine", "projected_qk"])
def test_one_flat_adam_is_adam_on_every_parameter(variant, sets, monkeypatch):
    """In float64, because the fused Adam rounds an element by its place in the vector."""
    settings, build = task(), MajorityTransformer
    monkeypatch.setattr(train, "MajorityTransformer", lambda *sizes: build(*sizes).double())
    ours = train.train(settings, run_of(variant, 2), sets).model.state_dict()
    torch.manual_seed(2)
    model = build(settings.classes, 4, settings.d_ff, variant).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: 1 - s / settings.schedule_steps)
    (counts, label), rng = sets["train"], generator(Stream.MAJORITY_BATCHES, 2)
    ends = range(100, len(label), 100)
    epochs = (np.split(rng.permutation(len(label)), ends) for _ in range(settings.steps))
    for rows in islice(chain.from_iterable(epochs), settings.steps):
        optimiser.zero_grad()
        parameters = model.loss_parameters()
        arrays = [parameter.detach().numpy() for parameter in parameters]
        _, _, gradients = kernel.loss_and_gradients(counts[rows], label[rows], arrays)
        torch.autograd.backward(parameters, list(map(torch.from_numpy, gradients)))
        optimiser.step()
        schedule.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-10)


def test_a_run_whose_loss_stops_being_finite_is_worse_than_any_other_from_there_on(sets, capsys):
    """The scores of projection_grown differ by hundreds, so that the weights of all classes of a sequence underflow."""
    settings = task(steps=60)
    result = train.train(settings, run_of("none", 0, learning_rate=10.0), sets)
    metrics, steps = result.metrics, evaluation_steps(settings.evaluate_every, 60)
    finite = np.isfinite(metrics.test_loss)
    assert sorted(steps) == metrics.step.tolist()
    assert finite.iloc[0] and not finite.iloc[-1] and finite.is_monotonic_decreasing
    assert np.isposinf(metrics.loc[~finite, ["train_loss", "test_loss"]]).all(axis=None)
    assert (metrics.test_accuracy[~finite] == 0).all() and metrics.notna().all(axis=None)
    assert set(result.vectors.checkpoint) == {"initial"}
    assert "small/none/0: the loss is no longer finite" in capsys.readouterr().out
    says = r"small/projection_grown/0: the loss is not finite at step 0; expected .* results are smaller, may help"
    with pytest.raises(ValueError, match=says):
        train.train(task(), run_of("projection_grown", 0), sets)


@pytest.mark.parametrize("lost", ["train_loss", "test_loss"])
def test_one_loss_that_is_not_finite_is_enough(lost, sets, monkeypatch):
    plain = train.evaluate
    monkeypatch.setattr(train, "evaluate", lambda *given: plain(*given) | {lost: np.inf})
    with pytest.raises(ValueError, match="the loss is not finite at step 0"):
        train.train(task(), run_of("scale", 0), sets)


@pytest.mark.parametrize(("variant", "d_ff"), [("layernorm", 5), ("projected_v", None)])
def test_metrics_are_those_of_an_oracle_on_tokens(variant, d_ff, sets):
    """The test set has the classes that training lacks, so that a trained model is far worse there."""
    settings = task(d_ff=d_ff)
    counts, label = (np.concatenate([part, other]) for part, other in zip(*sets.values(), strict=True))
    few, many = label < 3, np.flatnonzero(label >= 3)[:150]
    unlike = {name: data.Sequences(counts[i], label[i]) for name, i in (("train", few), ("test", many))}
    result = train.train(settings, run_of(variant, 3, learning_rate=0.05), unlike)
    torch.manual_seed(3)
    initial = MajorityTransformer(settings.classes, 4, d_ff or 4, variant)
    vectors = result.vectors.set_index(["checkpoint", "kind", "token"]).vector
    for when, model, last in (("initial", initial, 0), ("final", result.model, -1)):
        row = result.metrics.iloc[last]
        assert row.learning_rate == pytest.approx(0.05 if when == "initial" else 0.05 * (1 - 59 / 120))
        with torch.no_grad():
            train_loss, right_in_training = loss_and_correct(model, *map(torch.from_numpy, unlike["train"]))
            test_loss, right = loss_and_correct(model, *map(torch.from_numpy, unlike["test"]))
        assert row.train_loss == pytest.approx(train_loss.item(), rel=1e-5)
        assert row.test_loss == pytest.approx(test_loss.item(), rel=1e-5)
        assert row.test_accuracy == pytest.approx(right.item() / (20 * 150), abs=1e-3)
        keys, queries = (x.double() for x in model.keys_and_queries())
        cosine = (queries.sum(1) / queries.norm(dim=1) / 2).abs()
        angle = np.degrees(np.arccos(np.repeat(cosine.numpy(), unlike["train"].counts.sum(0, dtype=int))))
        assert row.query_angle_mean == pytest.approx(angle.mean(), rel=1e-6)
        assert row.query_angle_std == pytest.approx(angle.std(), rel=1e-6)
        normed = model.layer.norm1(model.embedding(torch.arange(settings.classes)))[None]
        with torch.no_grad():  # torch's layer, on a sequence in which every class occurs once
            attention = model.layer.self_attn(normed, normed, normed)[1][0].double().numpy()
        np.testing.assert_allclose(softmax((queries @ keys.T).numpy(), axis=1), attention, rtol=1e-4)
        assert row.score_std == pytest.approx(np.log(attention).std(axis=1).mean(), rel=1e-4)
        share = np.exp(entropy(attention, axis=1)).mean() / 6
        assert row.attention_share == pytest.approx(share, rel=1e-5)
        for token in range(settings.classes):
            np.testing.assert_array_equal(vectors[when, "key", token], keys[token])
            np.testing.assert_array_equal(vectors[when, "query", token], queries[token])
    assert train_loss < 0.5 * test_loss
    assert right_in_training / (20 * len(unlike["train"].label)) > 0.2 + row.test_accuracy
    assert len(vectors) == 2 * 2 * settings.classes


@pytest.mark.parametrize(
    ("every", "steps", "expected"),
    [
        (20, 50, [0, 20, 40, 50]),
        ("logarithmic", 7, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("logarithmic", 130, [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 63, 80, 100, 125, 130]),
    ],
)
def test_steps_at_which_a_run_is_evaluated(every, steps, expected):
    assert sorted(evaluation_steps(every, steps)) == expected


RECORDED = task(evaluate_every="logarithmic")
NAMED = {"experiment": "small", "d_model": 5, "base_learning_rate": 0.02}


def planned_batch(folder, code="a", norm_code="b", named=NAMED, **changes):
    """The plan of two runs of different variants and seeds, the data of each seed, in order, and the files."""
    jobs, inputs = [], []
    for seed in (3, 4):
        inputs.append(folder / f"{seed}.parquet")
        jobs.append(planned(f"majority_data/small/seed_{seed}", settings=RECORDED.of_data(), seed=seed))
        data.write(jobs[-1], inputs[-1])
    runs = [
        {"name": f"small/{variant}/{seed}", "variant": variant, "norm": norm, "seed": seed, **named}
        for variant, norm, seed in (("mine", "oracle:Stateful", 4), ("layernorm", "layernorm", 3))
    ]
    given = {"norm_code": {"mine": norm_code, "layernorm": None}, "device": "cpu"}
    given |= {"settings": RECORDED.of_training() | changes, "runs": runs, "device_check": "stop"}
    plan = planned("majority_train/small", *jobs, **given) | {"code": code}
    out = {name: folder / name for name in ("metrics", "vectors", "weights.safetensors")}
    return plan, inputs, {name.partition(".")[0]: file for name, file in out.items()}


def test_runs_of_a_batch_have_the_data_of_their_seeds_and_write_what_each_computes_alone(tmp_path):
    plan, files, out = planned_batch(tmp_path)
    with pytest.raises(ValueError, match="a file of another run of majority_data/small/seed_3"):
        train.train_batch(plan, files[::-1], out)
    torch.set_num_threads(2)
    train.train_batch(plan, files, out)
    assert torch.get_num_threads() == 1, "processes share the cores"
    runs, of_seed = [MajorityRun(**run) for run in plan["runs"]], dict(zip((3, 4), files, strict=True))
    alone = {run: train.train(RECORDED, run, data.load(of_seed[run.seed])) for run in runs}
    for kind in ("metrics", "vectors"):
        written, origin = store.read(out[kind], f"majority_{kind}"), store.read_provenance(out[kind])
        frames = (getattr(r, kind).assign(seed=run.seed, variant=run.variant) for run, r in alone.items())
        expected = pd.concat(frames).assign(**NAMED)[written.columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(written, expected, check_exact=True)
        assert json.loads(origin["config"]) == plan
        for stream in (Stream.MAJORITY_DATA, Stream.MAJORITY_BATCHES):
            assert stream.sentence in origin["seed_rule"]
    weights, facts = checkpoint.load(out["weights"])
    assert facts["identity"] == plan
    for run, result in alone.items():
        for name, value in result.model.state_dict().items():
            assert torch.equal(value, weights.pop(f"{run.name}/{name}"))
    assert not weights and not list(tmp_path.rglob("checkpoint*"))


def test_a_killed_batch_ends_with_equal_bytes_takes_no_step_again_and_of_another_plan_all(
    tmp_path, monkeypatch
):
    """Killed in its first run, and in its second after more than four epochs; one norm has a state."""
    (plan, files, out), steps = planned_batch(tmp_path), []
    train.train_batch(plan, files, out)
    whole = {name: path.read_bytes() for name, path in out.items()}
    monkeypatch.setattr(train, "compiled_gradient", counted(steps))
    # A run saves nine checkpoints, one after every seventh step and at its end.
    for checkpoints, changes, before, after in (
        (1, {}, 7, 113),
        (12, {}, 81, 39),
        (12, {"code": "edited"}, 81, 120),
        (1, {"norm_code": "edited"}, 7, 120),
        (1, {"batch_size": 99}, 7, 120),
        (1, {"named": NAMED | {"base_learning_rate": 0.03}}, 7, 120),
        (1, {"named": NAMED | {"norm": "scale"}}, 7, 120),
    ):
        with killed_after(checkpoints):
            train.train_batch(plan, files, out)
        assert len(steps) == before
        steps.clear()
        torch.manual_seed(999)
        with monkeypatch.context() as patch:
            patch.setattr(Device, "identity", changes.pop("device", "cpu"))
            train.train_batch(planned_batch(tmp_path, **changes)[0], files, out)
        assert len(steps) == after
        steps.clear()
        assert changes or whole == {name: path.read_bytes() for name, path in out.items()}

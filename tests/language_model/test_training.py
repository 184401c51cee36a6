"""Training: resumed runs to the byte, checkpoints that do not fit, batches, and the two tasks of BERT."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from layernorm_roles import checkpoint, store
from layernorm_roles.language_model import bert, train
from layernorm_roles.language_model.runs import Run
from layernorm_roles.text import contexts, tokenizer

GPT = {
    "layers": 2, "dim": 8, "heads": 4, "context": 16, "eps": 1e-5, "query_key_eps": 1e-6, "dropout": 0.1,
    "attention_dropout": 0.0, "batch": 4, "steps": 40, "learning_rate": 0.01, "weight_decay": 0.0, "clip": 1.0,
    "evaluate_every": 7, "validation_windows": 3, "checkpoint_every": 9,
}  # fmt: skip
BERT = {
    "layers": 2, "dim": 8, "heads": 4, "feed_forward": 16, "context": 17, "dropout": 0.1, "task": "masked",
    "training": None, "validation": None, "batch": 4, "steps": 12, "learning_rate": 0.01, "weight_decay": 0.0,
    "clip": 1.0, "evaluate_every": 6, "validation_batches": 2, "checkpoint_every": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for i in range(30):
        sentences = [
            " ".join(rng.choice(["alpha", "beta", "gamma", "delta", "of", "the"], 6)) for _ in range(30)
        ]
        (folder / f"{i}.txt").write_text(". ".join(s.capitalize() for s in sentences) + ".")
    settings = {
        "corpus": {"kind": "files", "paths": [str(folder / "*.txt")]},
        "split": {"training": 0.6, "validation": 0.2, "held_out": 0.2},
        "tokenizer": "trained",
        "vocabulary": 280,
        "long": {"source": None, "shortest": 12, "longest": 16, "contexts": 3},
        "sentences": {"source": None, "shortest": 4, "longest": 16, "contexts": 4},
    }
    contexts.prepare(settings, folder / "text")
    return contexts.Prepared(folder / "text")


def outputs(folder):
    return train.Outputs(*(Path(folder) / name for name in ("initial", "final", "metrics", "checkpoint")))


def everything(out):
    """What a finished run leaves behind, but for the wall time."""
    metrics = store.read(out.metrics, "language_model_metrics").drop(columns="seconds")
    return out.initial.read_bytes(), out.final.read_bytes(), metrics.to_csv()


@pytest.mark.parametrize("kind", ["gpt", "bert"])
def test_a_killed_run_resumes_to_the_same_bytes(corpus, tmp_path, kind):
    settings = GPT if kind == "gpt" else BERT
    run = Run(kind, "layernorm", 1, "layernorm", settings, corpus)
    run.train(outputs(tmp_path / "whole"), "cpu", 1)
    program = (
        "import json, sys, time\n"
        "from pathlib import Path\n"
        "from layernorm_roles import checkpoint\n"
        "from layernorm_roles.language_model import train\n"
        "from layernorm_roles.language_model.runs import Run\n"
        "from layernorm_roles.text.contexts import Prepared\n"
        "kind, settings, folder, out = sys.argv[1:]\n"
        "save = checkpoint.Checkpoint.save\n"
        "def save_and_wait(*args):\n"
        "    save(*args)\n"
        "    print('saved', flush=True)\n"
        "    time.sleep(0.2)\n"
        "checkpoint.Checkpoint.save = save_and_wait\n"
        "files = [Path(out) / name for name in ('initial', 'final', 'metrics', 'checkpoint')]\n"
        "run = Run(kind, 'layernorm', 1, 'layernorm', json.loads(settings), Prepared(Path(folder)))\n"
        "run.train(train.Outputs(*files), 'cpu', 1)\n"
    )
    arguments = [kind, json.dumps(settings), str(corpus.folder), str(tmp_path / "killed")]
    child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    for _ in range(2 if kind == "gpt" else 1):
        assert child.stdout.readline() == "saved\n"
    time.sleep(0.21)  # some steps beyond the checkpoint
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    killed = outputs(tmp_path / "killed")
    assert killed.checkpoint.exists()
    assert not killed.final.exists()
    run.train(killed, "cpu", 1)
    assert everything(killed) == everything(outputs(tmp_path / "whole"))
    assert not killed.checkpoint.exists()


def stopped(corpus, out, monkeypatch, settings=GPT):
    """A run that ends at its first checkpoint, as if killed there."""

    class Stop(Exception):
        pass

    save = checkpoint.Checkpoint.save

    def save_and_stop(*args):
        save(*args)
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, "save", save_and_stop)
        with pytest.raises(Stop):
            Run("gpt", "projection", 0, "projection", settings, corpus).train(out, "cpu", 1)


def test_a_foreign_or_damaged_checkpoint_is_said_and_not_used(corpus, tmp_path, monkeypatch, capsys):
    run = Run("gpt", "projection", 0, "projection", GPT, corpus)
    run.train(outputs(tmp_path / "whole"), "cpu", 1)
    whole = everything(outputs(tmp_path / "whole"))
    out = outputs(tmp_path)

    stopped(corpus, out, monkeypatch, GPT | {"learning_rate": 0.02})
    run.train(out, "cpu", 1)
    assert "checkpoint of another run (different: settings)" in capsys.readouterr().err
    assert everything(out) == whole

    stopped(corpus, out, monkeypatch)
    run.train(out, "cpu", 1, code="edited")
    assert "checkpoint of another run (different: code)" in capsys.readouterr().err
    assert everything(out) == whole

    stopped(corpus, out, monkeypatch)
    out.checkpoint.write_bytes(out.checkpoint.read_bytes()[:-1])
    run.train(out, "cpu", 1)
    assert "checkpoint: damaged" in capsys.readouterr().err
    assert everything(out) == whole
    assert not out.checkpoint.exists()


def test_metrics_and_learning(corpus, tmp_path):
    out = outputs(tmp_path)
    Run("gpt", "layernorm", 0, "layernorm", GPT, corpus).train(out, "cpu", 1)
    metrics = store.read(out.metrics, "language_model_metrics")
    assert metrics.step.tolist() == [0, 7, 14, 21, 28, 35, 40]
    assert metrics.tokens.tolist() == [step * 64 for step in metrics.step]
    assert metrics.valid_loss[0] == pytest.approx(np.log(280), abs=0.1)
    assert metrics.valid_loss.iloc[-1] < metrics.valid_loss[0] - 0.5
    assert metrics.learning_rate.iloc[-1] == 0
    assert store.about(out.metrics)["seed_rule"] == train.SEED_RULE


def test_a_diverging_run_says_so(corpus, tmp_path):
    run = Run("gpt", "none", 0, "none", {**GPT, "learning_rate": 1e30}, corpus)
    with pytest.raises(ValueError, match="no longer finite at step"):
        run.train(outputs(tmp_path), "cpu", 1)
    assert not list(tmp_path.iterdir())


def test_an_epoch_reads_each_window_once(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(1000, dtype=np.uint16))
    settings = {"context": 16, "batch": 3, "validation_windows": 4}
    task = train.NextToken(tmp_path / "t.npy", tmp_path / "t.npy", 1000, settings, seed=5)
    steps = task.windows // 3
    first = np.concatenate([task.batch(step)[0] for step in range(steps)])
    assert (np.diff(first, axis=1) == 1).all()
    starts = first[:, 0]
    assert len(set(starts)) == len(starts)
    assert len(set(starts % 16)) == 1
    second = np.concatenate([task.batch(step)[0] for step in range(steps, 2 * steps)])
    assert not np.array_equal(first, second)
    again = train.NextToken(tmp_path / "t.npy", tmp_path / "t.npy", 1000, settings, seed=5)
    assert np.array_equal(again.batch(steps + 1)[0], task.batch(steps + 1)[0])


def test_a_context_longer_than_the_corpus_is_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"training\.npy: \d+ tokens; expected more than one window"):
        Run("gpt", "none", 0, "none", {**GPT, "context": 10**6}, corpus).train(outputs(tmp_path), "cpu", 1)


def test_contexts_longer_than_the_model_show_before_training(corpus, tmp_path):
    with pytest.raises(
        ValueError, match=r"context \d of the long texts has \d+ tokens; the model reads at most 8"
    ):
        Run("gpt", "none", 0, "none", {**GPT, "context": 8}, corpus).train(outputs(tmp_path), "cpu", 1)
    assert not list(tmp_path.iterdir())


def test_masking_follows_bert(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(50_000, dtype=np.uint16) % 500)
    settings = {"context": 129, "batch": 200, "validation_batches": 1}
    task = bert.Masked(tmp_path / "t.npy", tmp_path / "t.npy", 500, settings, seed=0)
    tokens, where, targets = task.batch(0)
    assert (tokens[:, 0] == 500 + bert.CLASS).all()
    assert where.shape == (200, round(0.15 * 128))
    assert all(len(set(row)) == len(row) and row.min() > 0 for row in where)
    shown = np.take_along_axis(tokens, where, axis=1)
    assert np.mean(shown == 500 + bert.MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(shown == targets) == pytest.approx(0.1, abs=0.02)
    restored = tokens.copy()
    np.put_along_axis(restored, where, targets, axis=1)
    assert (np.diff(restored[:, 1:], axis=1) % 500 == 1).all()
    assert all(np.array_equal(a, b) for a, b in zip(task.batch(0), (tokens, where, targets), strict=True))


def test_sentences_with_labels_train(corpus, tmp_path):
    folder = tmp_path / "sst2"
    folder.mkdir()
    rows = pd.DataFrame({"sentence": ["alpha beta", "gamma the of delta"] * 12, "label": [0, 1] * 12})
    for split in ("train", "validation"):
        rows.to_parquet(folder / f"{split}.parquet")
    source = {"dataset": str(folder), "column": "sentence", "label_column": "label"}
    settings = BERT | {
        "task": "labelled",
        "steps": 60,
        "training": source | {"split": "train"},
        "validation": source | {"split": "validation"},
    }
    run = Run("bert", "layernorm", 0, "layernorm", settings, corpus)
    run.train(outputs(tmp_path / "run"), "cpu", 1)
    metrics = store.read(tmp_path / "run" / "metrics", "language_model_metrics")
    assert metrics.valid_loss[0] == pytest.approx(np.log(2), abs=0.05)
    assert metrics.valid_loss.iloc[-1] < 0.5
    assert len(run.keys({"final": tmp_path / "run" / "final"}, 1).tokens)
    words = tokenizer.load(corpus.tokenizer)
    with pytest.raises(ValueError, match="without a label"):
        bert.Labelled([("a", -1)] * 4, [("a", 0)] * 4, words, BERT, 0)
    with pytest.raises(ValueError, match="1 sentences; expected at least batch = 4"):
        bert.Labelled([("a", 1)], [("a", 0)] * 4, words, BERT, 0)

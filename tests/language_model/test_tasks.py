"""Batches of the three tasks: from the right text, each window once an epoch, masked as BERT's paper says."""

import numpy as np
import pytest
from hand_made import SMALL_BERT, SMALL_GPT, changed, contexts, labelled, prepared_text, tokenizer

from layernorm_roles.language_model import tasks
from layernorm_roles.language_model.bert import CLASS, MASK, PAD
from layernorm_roles.random_streams import Stream


@pytest.mark.parametrize("settings", [SMALL_GPT, SMALL_BERT])
def test_training_and_validation_read_the_text_of_their_part(disjoint_text, settings):
    """BERT shows random tokens too, so that there only what the model has to predict counts."""
    task = tasks.build(settings, disjoint_text, tokenizer(), seed=0)
    different = {batch[0].tobytes() for batch in task.validation}
    assert len(different) == len(task.validation) == (1 if settings is SMALL_GPT else 2)
    for batches, low in (([task.batch(step) for step in range(5)], 0), (task.validation, 100)):
        tokens = np.concatenate([batch[-1].ravel() for batch in batches])
        assert ((low <= tokens) & (tokens < low + 100)).all()
    other = tasks.build(settings, disjoint_text, tokenizer(), seed=1)
    for ours, theirs in zip(task.validation, other.validation, strict=True):
        assert all(map(np.array_equal, ours, theirs)), "runs of all seeds have one set of validation batches"
    assert not np.array_equal(task.batch(0)[0], other.batch(0)[0])


def test_labelled_sentences_come_from_their_sources(tmp_path, disjoint_text):
    """Training has twice as many as a batch. One more for validation is longer than the model's context."""
    spelt = {first: [f"w{first + i} w{first + i + 20}" for i in range(8)] for first in (0, 100)}
    rows = {"train": {"sentence": spelt[0]}, "validation": {"sentence": spelt[100]}}
    rows = {split: part | {"label": [0, 1] * 4} for split, part in rows.items()}
    for column, last in (("sentence", "w1 " * 17), ("label", 0)):
        rows["validation"][column].append(last)
    settings = labelled(tmp_path, rows)
    task = tasks.build(settings, disjoint_text, tokenizer(), 0, tmp_path)
    assert task.classes == 2
    (long,), (length,), _ = task.validation.pop()
    assert long.tolist() == [300 + CLASS, *[1] * 16] and length == 17
    epoch, again = (
        [np.concatenate(parts) for parts in zip(task.batch(step), task.batch(step + 1), strict=True)]
        for step in (0, 2)
    )
    assert not np.array_equal(epoch[0], again[0])
    assert np.array_equal(np.sort(epoch[0], axis=0), np.sort(again[0], axis=0))
    validation = [np.concatenate(parts) for parts in zip(*task.validation, strict=True)]
    for (tokens, lengths, labels), first in ((epoch, 0), (validation, 100)):
        assert (tokens[:, 0] == 300 + CLASS).all() and (tokens[:, 3:] == 300 + PAD).all()
        assert (lengths == 3).all() and (tokens[:, 1] % 2 == labels).all()
        assert (tokens[:, 1] + 20 == tokens[:, 2]).all()
        in_order = tokens[:, 1].tolist() == list(range(first, first + 8))
        assert sorted(tokens[:, 1]) == list(range(first, first + 8)) and in_order == (first == 100)


def next_token(seed, training=1000, validation=1000, **changes):
    settings = changed(SMALL_GPT, batch_size=3, validation_windows=4, **changes)
    return tasks.NextToken(np.arange(training), np.arange(validation), 4096, settings, seed)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: next_token(seed=0, training=64), r"2 windows of .*context_length = 16.*batch_size = 3"),
        *(
            (lambda given=given: tasks.LabelledSentences(*given, tokenizer(), SMALL_BERT, 0), says)
            for given, says in (
                (([("a", -1)] * 4, [("a", 0)] * 4), "source of training has a sentence without a label"),
                (([("a", 0)] * 4, [("a", 1)] * 3), "validation has 3 sentences; .* batch_size = 4"),
            )
        ),
    ],
)
def test_too_little_text_and_sentences_without_labels_are_refused(build, says):
    with pytest.raises(ValueError, match=says):
        build()


def test_as_many_windows_and_tokens_as_a_batch_needs_are_enough(tmp_path):
    """Three windows at any offset of 16 tokens, and a text of one token more than a BERT's window without its class."""
    least = next_token(seed=0, training=65)
    assert sorted(np.diff(np.sort(least.batch(0)[0][:, 0]))) == [16, 16]
    text = prepared_text(tmp_path, range(17), range(17), contexts(("sentences", [1])))
    tokens, where, _ = tasks.build(changed(SMALL_BERT, context_length=17), text, tokenizer(), 0).batch(0)
    assert tokens.shape == (4, 17) and where.shape == (4, 2)


@pytest.mark.parametrize("settings", [SMALL_GPT, SMALL_BERT, "labelled"])
def test_batches_come_from_the_random_streams_that_the_task_names(settings, tmp_path, disjoint_text, drawn):
    """Validation from that of the text's seed, which is 11."""
    if settings == "labelled":
        rows = {"sentence": ["w1"] * 4, "label": [0, 1] * 2}
        settings = labelled(tmp_path, {"train": rows, "validation": rows})
    task = tasks.build(settings, disjoint_text, tokenizer(), 5, tmp_path)
    task.batch(0)
    assert drawn == {s.number: {11 if s is Stream.MASKED_VALIDATION else 5} for s in task.streams}


def test_an_epoch_reads_each_window_once_from_a_random_offset():
    task = next_token(seed=5)
    steps = task.windows // 3
    first, second = (
        np.concatenate([task.batch(epoch * steps + step)[0] for step in range(steps)]) for epoch in (0, 1)
    )
    for windows in (first, second):
        starts = windows[:, 0]
        assert (np.diff(windows, axis=1) == 1).all()
        assert len(set(starts)) == len(starts) == 60 and len(set(starts % 16)) == 1
    assert first[0, 0] % 16 != second[0, 0] % 16
    assert not np.array_equal(np.argsort(first[:, 0]), np.argsort(second[:, 0]))
    assert np.array_equal(next_token(seed=5).batch(steps + 1)[0], task.batch(steps + 1)[0])


@pytest.mark.parametrize(("tokens", "possible"), [(1000, 62), (993, 62), (992, 61), (49, 3)])
def test_validation_windows_lie_at_equal_distances(tokens, possible):
    """Each with the token after it, of which the text may end one too early; and none is read twice."""
    windows = np.concatenate([batch for (batch,) in next_token(seed=0, validation=tokens).validation])
    assert windows[:, 0].tolist() == sorted({16 * (i * (possible - 1) // 3) for i in range(4)})


def masked(context_length=125):
    settings = changed(SMALL_BERT, context_length=context_length, batch_size=200, validation_batches=1)
    streams = np.arange(50_000) % 500, np.arange(5000) % 500
    return tasks.MaskedTokens(*streams, 500, settings, seed=0, validation_seed=11)


def test_masking_follows_bert():
    task = masked()
    tokens, where, targets = task.batch(0)
    assert not any(map(np.array_equal, task.batch(0), task.batch(1))), "every step masks other tokens"
    assert (tokens[:, 0] == 500 + CLASS).all() and where.shape == (200, 19), "the nearest to 15 % of 124"
    assert all(len(set(row)) == len(row) for row in where) and set(where.flat) == set(range(1, 125))
    assert masked(context_length=3).batch(0)[1].shape == (200, 1), "at least one"
    shown = np.take_along_axis(tokens, where, axis=1)
    assert np.mean(shown == 500 + MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(shown == targets) == pytest.approx(0.1, abs=0.02)
    random = shown[(shown != 500 + MASK) & (shown != targets)]
    assert random.max() < 500 and len(set(random)) > 200
    restored = tokens.copy()
    np.put_along_axis(restored, where, targets, axis=1)
    assert (np.diff(restored[:, 1:], axis=1) % 500 == 1).all()


@pytest.mark.parametrize("settings", [SMALL_GPT, SMALL_BERT])
def test_the_unigram_loss_is_the_validation_loss_of_a_model_that_knows_frequencies(settings):
    """The last validation batch is smaller than the others, and rare tokens are not spread evenly."""
    rng, settings = np.random.default_rng(3), changed(settings, batch_size=2)
    training, validation = (np.sort(rng.geometric(0.3, n) % 12).astype(np.uint16) for n in (3000, 500))
    kind = tasks.task_type(settings)
    seeds = {"seed": 0} if kind is tasks.NextToken else {"seed": 0, "validation_seed": 0}
    task = kind(training, validation, 12, settings, **seeds)
    counts = np.array([1 + np.sum(training == token) for token in range(12)])
    predicted = [batch[-1][:, kind is tasks.NextToken :] for batch in task.validation]
    losses = [-np.log(counts / counts.sum())[tokens].mean() for tokens in predicted]
    known = np.average(losses, weights=[len(tokens) for tokens in predicted])
    assert task.unigram_loss == pytest.approx(known, abs=1e-12)


def test_a_stream_longer_than_what_is_counted_at_once_is_counted_whole():
    training = np.zeros(20_000_001, np.uint16)
    training[[0, 10_000_000, 20_000_000]] = 1
    assert tasks.unigram_loss(training, 2, np.array([1])) == pytest.approx(np.log(20_000_003 / 4))

"""Claims that the size of attention's input acts as a learning rate of W_Q and W_K, by the rules of
docs/step_size.md.

w is the loss increase under uniform attention (all scores 0) at the last step, in nats per token.
"""

from functools import partial
from itertools import pairwise

import pandas as pd

from layernorm_roles.evidence.analysis import step_size as numbers
from layernorm_roles.evidence.analysis.step_size import BYTES, PAPER
from layernorm_roles.evidence.claims import rules, testing
from layernorm_roles.evidence.claims.rules import NO_EFFECT, QUARTER, SMALL_EFFECT, Finding
from layernorm_roles.evidence.claims.testing import Measured, Number, Test, enough, require

claim = partial(
    testing.claim,
    kind="ours",
    source="our question, docs/step_size.md",
    part="scaling",
    target="language_model",
    unit=" nats",
    figures=["step_size"],
)
NATS, WORTH, LOSS = " nats", "loss increase under uniform attention", "validation loss at the last step"
MODELS = {"at the paper's rate": PAPER, "bytes": BYTES}


def arms(test: Test, models: str, words: str, column: str) -> Measured:
    """Return a column of the runs by arm, for each seed; raises Missing unless all arms were run."""
    metrics, attention = test.table("language_model_metrics"), test.table("language_model_attention")
    of_runs = numbers.runs(metrics, attention, models)
    frame = pd.DataFrame({name: numbers.arm(of_runs, name)[column] for name in numbers.ARMS})
    for name in frame:
        enough(frame[name].dropna(), f"{name}, {words}")
    return test.measured(frame, NATS, WORTH if column == "worth" else LOSS, title=words)


@claim(primary=True)
def rate_not_size(test):
    """What a small attention input takes from a language model is step size: multiplying the learning rate of W_Q and
    W_K by the factor by which the input is smaller gives attention back, and dividing LayerNorm's by it takes it
    away.

    Setting: A question of ours. Seeds of 60,000 and on, which no earlier run had; the rule was committed before the
        first of these runs.
    Statistic: loss increase under uniform attention at the last step, restored minus small, at the paper's rate, nats
        per token
    Control: LayerNorm with the rate of W_Q and W_K divided by the factor
    Rule: Holds if at the paper's rate and in bytes the loss increase w of a small LayerNorm with the rate of W_Q and
        W_K times 35.36 (restored) is above that with the rate as it is (small) by more than {SMALL_EFFECT} nats; if
        at the paper's rate w of small and of LayerNorm with that rate divided by 35.36 are below {NO_EFFECT}; and if
        in bytes both are below a quarter of LayerNorm's. Does not hold if one of these intervals lies on the other
        side. If at the paper's rate w of restored is below {NO_EFFECT}, size itself matters.
    """
    worth = {words: arms(test, models, words, "worth") for words, models in MODELS.items()}
    for own in worth.values():
        test.effect(own.minus("restored", "small"), above=SMALL_EFFECT)
    for name in ("small", "slow LayerNorm"):
        test.effect(worth["at the paper's rate"].one(name), below=NO_EFFECT)
    of_bytes = worth["bytes"]
    for name in ("small", "slow LayerNorm"):
        less = (of_bytes.frame[name] - QUARTER * of_bytes.frame["LayerNorm"]).dropna()
        test.effect(test.mean(less, f"bytes, {name} minus a quarter of LayerNorm", NATS, WORTH), below=0)
    restored = worth["at the paper's rate"].one("restored")
    if rules.at_most(restored.estimate, NO_EFFECT) == Finding.SEEN:
        test.effect(restored, above=NO_EFFECT)
        test.note(
            "Size itself matters: at the paper's rate the larger learning rate gives no attention back."
        )
    for own in worth.values():
        test.show(own.one("LayerNorm"))
        test.show(own.one("restored"))


@claim()
def restored(test):
    """A small LayerNorm whose W_Q and W_K have the learning rate times the factor by which it is smaller trains like
    LayerNorm: it ends at the same loss and learns to attend at the same time.

    Setting: A question of ours. Seeds of 60,000 and on, which no earlier run had; the rule was committed before the
        first of these runs.
    Statistic: validation loss at the last step, restored minus LayerNorm, at the paper's rate, nats per token
    Control: what attention is worth to LayerNorm
    Rule: In both models, with W the mean of LayerNorm's loss increase under uniform attention at the last step: the
        intervals of the differences between restored and LayerNorm lie within W/4 of 0, both for the validation loss
        at the last step and for the loss increase at the half step, the first one looked at where LayerNorm's mean is
        at least W/2. Does not hold if one of these intervals lies outside.
    """
    attention = test.table("language_model_attention")
    for words, models in MODELS.items():
        loss, worth = (arms(test, models, words, column) for column in ("loss", "worth"))
        whole = float(worth.frame["LayerNorm"].mean())
        of_runs = numbers.runs(test.table("language_model_metrics"), attention, models)
        by_step = {
            name: numbers.worth_by_step(attention, numbers.arm(of_runs, name))
            for name in ("restored", "LayerNorm")
        }
        reached = by_step["LayerNorm"].mean(axis=1) >= whole / 2
        require(reached.any(), f"LayerNorm does not learn to attend, {words}.", runs=len(worth.frame))
        step = reached.idxmax()
        test.effect(loss.minus("restored", "LayerNorm"), within=QUARTER * whole)
        then = pd.DataFrame({name: values.loc[step] for name, values in by_step.items()})
        then = test.measured(then, NATS, f"{WORTH} at step {step:,}", title=words)
        test.effect(then.minus("restored", "LayerNorm"), within=QUARTER * whole)
        test.show(worth.one("LayerNorm"))


@claim(primary=True)
def one_curve(test):
    """The loss at the end of training depends on the size f of attention's input and on the factor r on the learning
    rate of W_Q and W_K through their product alone.

    Setting: A question of ours, in a model of bytes. Seeds of 60,000 and on, which no earlier run had; the rule was
        committed before the first of these runs.
    Statistic: D, validation loss at the last step at f r = 0.316 minus that at 1, mean over f, nats per token
    Control: cells of equal f, or of equal r, that differ in f r
    Rule: Holds if within each level of f r (3.16, 1, 0.316, 0.1) the difference of every two cells lies within D/4 of
        0, by intervals from the residual variance of the level's table of cells by seeds; and if, for every f and for
        every r with several f, cells whose f r are 1 and 0.316, or 0.316 and 0.1, differ by more than D/4, by
        intervals paired by seed. Does not hold if one of these intervals lies on the other side.
    """
    of_runs = numbers.runs(test.table("language_model_metrics"), test.table("language_model_attention"))
    of_runs = numbers.of_common_seeds(of_runs)
    require(len(of_runs), "The run has no models of bytes with several sizes and rates, of equal seeds.")
    place = ["level", "size", "query_key_rate"]
    losses = of_runs.dropna(subset="level").pivot(index="seed", columns=place, values="loss")
    enough(losses.iloc[:, 0], "sizes and rates")
    of_size = {(level, size): losses[level, size, rate] for level, size, rate in losses}
    first, second, third = numbers.PRODUCTS[1:]
    sizes = [size for level, size in of_size if level == first and (second, size) in of_size]
    require(len(sizes) > 1, "The run has fewer than two sizes with f r of 1 and of 0.316.")
    gap = sum(of_size[second, size] - of_size[first, size] for size in sizes) / len(sizes)
    test.show(test.mean(gap, "f r = 0.316 minus f r = 1, mean over f", NATS, LOSS))
    quarter = QUARTER * float(gap.mean())
    for level in numbers.PRODUCTS:
        cells = losses[level] if level in losses.columns.get_level_values("level") else pd.DataFrame()
        require(cells.shape[1] > 1, f"The run has fewer than two cells with f r = {level:.3g}.")
        for (a, b), estimate in numbers.pairs(cells, test.level).items():
            words = f"f r = {level:.3g}, {_cell(*a)} minus {_cell(*b)}"
            test.effect(Number(estimate, len(cells), words, NATS, LOSS), within=quarter)
    for large, small in pairwise((first, second, third)):
        for a in losses[large]:
            for b in losses[small]:
                if a[0] == b[0] or abs(a[1] / b[1] - 1) < 0.01:
                    change = losses[(small, *b)] - losses[(large, *a)]
                    words = f"{_cell(*b)} minus {_cell(*a)}"
                    test.effect(test.mean(change, words, NATS, LOSS), further_than=quarter)


def _cell(size: float, rate: float) -> str:
    return f"(f = {size:.3g}, r = {rate:.3g})"

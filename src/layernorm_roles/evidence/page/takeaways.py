"""What a reader of three minutes should know: a chosen claim a sentence, with its verdict and its numbers."""

from typing import NamedTuple

from layernorm_roles.evidence.claims.rules import Verdict

FIGURES = ("majority_widths_by_width", "language_model_losses", "claims_forest")
"""The figures that carry the sentences."""


class Takeaway(NamedTuple):
    """One claim as a question and a sentence; the run fills in the answer and the numbers."""

    claim: str
    question: str
    own: str
    """What was measured, with {measured} for the number."""
    isolated: str
    """The first control, with {control} for the number; it follows a semicolon."""


TAKEAWAYS = (
    Takeaway(
        "faster",
        "Does projection make training faster?",
        "Without it, as the released code computes it, training needs {measured} LayerNorm’s steps",
        "without it but with keys as large as LayerNorm’s, {control}",
    ),
    Takeaway(
        "accurate_best_rate",
        "Does projection make it more accurate, with each norm at its best learning rate?",
        "Its test accuracy minus that of the released variant without it is {measured}",
        "minus that of scaling alone, {control}",
    ),
    Takeaway(
        "parallel",
        "Do queries turn parallel to the ones vector?",
        "Without projection, as released, their angle to it is larger by {measured}",
        "with scaling alone, by {control}",
    ),
    Takeaway(
        "project_values",
        "Does projection cost accuracy in three dimensions, in the values rather than the keys?",
        "Projecting the values alone costs {measured}",
        "projecting queries and keys alone costs {control}",
    ),
    Takeaway(
        "random_keys_layernorm",
        "Can every random key be selected after LayerNorm?",
        "Of the matrices of Gaussian keys {measured} have one that no query selects",
        "after projection alone {control} have one",
    ),
    Takeaway(
        "table_1",
        "Does a language model without scaling have keys that no query selects?",
        "At the attention input {measured} of them are such keys",
        "before any training {control} are",
    ),
    Takeaway(
        "heads",
        "Does LayerNorm prevent such keys where attention happens, in the heads?",
        "After W_K {measured} of the keys are such keys with LayerNorm",
        "without its scaling {control} are",
    ),
    Takeaway(
        "loss_gap_best_rate_bytes",
        "Does scaling lower the loss of a model that uses its attention, with each norm at its best learning rate?",
        "The loss without scaling minus that with it is {measured}",
        "where the variant without scaling learns the size of its attention input, {control}",
    ),
)
"""The claims that the page begins with, in its order."""

ANSWERS = {
    Verdict.REPRODUCED: "Yes.",
    Verdict.PARTIAL: "In part.",
    Verdict.REVERSED: "The opposite.",
    Verdict.CONFOUNDED: "The effect is there, but something else makes it.",
    Verdict.NOT_REPRODUCED: "No.",
    Verdict.HOLDS: "Yes.",
    Verdict.DOES_NOT_HOLD: "No.",
    Verdict.NOT_TESTED: "This run cannot tell.",
}
"""What each verdict answers to the question."""


def sentence(takeaway: Takeaway, measured: str, control: str) -> str:
    """The takeaway's sentence with its numbers, as texts with units; empty if nothing was measured.

    >>> sentence(TAKEAWAYS[3], "21 points", "1 point")
    'Projecting the values alone costs 21 points; projecting queries and keys alone costs 1 point.'
    """
    if not measured:
        return ""
    parts = [takeaway.own.format(measured=measured)]
    if control:
        parts.append(takeaway.isolated.format(control=control))
    return "; ".join(parts) + "."

"""Evaluation of the majority task's transformer: its loss, accuracy, query angles and attention, and at which steps."""

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from layernorm_roles.majority.gradients import Batch, compiled_loss
from layernorm_roles.majority.model import MajorityTransformer
from layernorm_roles.settings.majority import LOGARITHMIC

PREFERRED = (100, 125, 160, 200, 250, 320, 400, 500, 630, 800)
"""The R10 series of preferred numbers times 100: ten numbers a decade, whose logarithms are nearly evenly spaced."""


def evaluation_steps(every: int | str, steps: int) -> frozenset[int]:
    """The steps of evaluation, 0 and `steps` included: multiples of `every`, or ten a decade if it is "logarithmic"."""
    if every == LOGARITHMIC:
        decades = (10**decade for decade in range(len(str(steps))))
        chosen = {number * decade // 100 for decade in decades for number in PREFERRED}
    else:
        chosen = set(range(0, steps, every))
    return frozenset({0, steps} | {step for step in chosen if step < steps})


@torch.no_grad()
def evaluate(
    model: MajorityTransformer, training: Batch, test: Batch, class_tokens: Float[Tensor, " classes"]
) -> dict[str, float]:
    """Evaluate a model of the majority task: a dictionary of columns of the table `majority_metrics`.

    `class_tokens` are the numbers of training tokens of each class. train_loss and test_loss are means over all
    sequences, in nats per token. test_accuracy is the share of test tokens at which the model predicts the majority
    class. query_angle_mean and query_angle_std are of the angle between a query and the line of the ones vector, in
    degrees, over training tokens. score_std is the standard deviation of attention scores, and attention_share the
    perplexity of attention divided by the number of keys; both are for a sequence with one token of every class.
    """
    parameters = model.loss_parameters()
    training_loss, _ = compiled_loss(parameters, *training)
    test_loss, right = compiled_loss(parameters, *test)
    keys, queries = model.keys_and_queries()
    mean, std = query_angle(queries, class_tokens)
    score_std, attention_share = spread_of_attention(keys, queries)
    return {
        "train_loss": float(training_loss),
        "test_loss": float(test_loss),
        "test_accuracy": int(right) / test[0].sum().item(),
        "query_angle_mean": mean,
        "query_angle_std": std,
        "score_std": score_std,
        "attention_share": attention_share,
    }


def query_angle(
    queries: Float[Tensor, "classes d_model"], class_tokens: Float[Tensor, " classes"]
) -> tuple[float, float]:
    """Mean and standard deviation of the angle between a token's query and the line of the ones vector, in degrees."""
    queries = queries.double()
    cosine = queries.sum(dim=-1).abs() / (queries.norm(dim=-1) * queries.shape[-1] ** 0.5)
    angle = torch.rad2deg(torch.acos(cosine.clamp(max=1.0)))
    weight = class_tokens / class_tokens.sum()
    mean = (weight * angle).sum()
    return mean.item(), (weight * (angle - mean).square()).sum().sqrt().item()


def spread_of_attention(
    keys: Float[Tensor, "classes d_model"], queries: Float[Tensor, "classes d_model"]
) -> tuple[float, float]:
    """Standard deviation of scores over keys, and perplexity of attention over the number of keys (1: equal)."""
    scores = queries.double() @ keys.double().T
    log_attention = torch.log_softmax(scores, dim=-1)
    perplexity = torch.exp(-(log_attention.exp() * log_attention).sum(dim=-1))
    return scores.std(dim=-1, correction=0).mean().item(), (perplexity / len(keys)).mean().item()


def vectors_of(model: MajorityTransformer) -> pd.DataFrame:
    """A table with the key and the query of each class of the majority task."""
    keys, queries = (x.detach().double().cpu().numpy() for x in model.keys_and_queries())
    return pd.concat(
        pd.DataFrame({"token": range(len(vectors)), "kind": kind, "vector": list(vectors)})
        for kind, vectors in (("key", keys), ("query", queries))
    )

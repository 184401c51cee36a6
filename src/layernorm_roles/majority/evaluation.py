"""What is measured of a majority transformer: loss, accuracy, the angle of the queries, and its vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from layernorm_roles.majority.data import Sequences
from layernorm_roles.majority.gradients import Loss
from layernorm_roles.majority.model import MajorityTransformer


@dataclass(frozen=True)
class DeviceSequences:
    """Sequences of the majority task as tensors on the device that trains."""

    counts: UInt8[Tensor, "sequences classes"]
    """How often each class occurs in a sequence."""
    label: Int[Tensor, " sequences"]
    """The class that occurs most often in a sequence."""

    @classmethod
    def of(cls, sequences: Sequences, device: str) -> "DeviceSequences":
        """Put `sequences` on `device`."""
        return cls(*(torch.from_numpy(array).to(device) for array in sequences))

    @cached_property
    def class_tokens(self) -> Float[Tensor, " classes"]:
        """The number of tokens of each class in all sequences together."""
        return self.counts.sum(dim=0, dtype=torch.float64)

    def batch(
        self, rows: Int[Tensor, " batch"]
    ) -> tuple[UInt8[Tensor, "batch classes"], Int[Tensor, " batch"]]:
        """The counts and labels of the sequences with the numbers `rows`."""
        return self.counts.index_select(0, rows), self.label.index_select(0, rows)


@torch.no_grad()
def evaluate(
    model: MajorityTransformer, training: DeviceSequences, test: DeviceSequences, loss_of: Loss
) -> dict[str, float]:
    """The columns of `majority_metrics` that the model determines.

    Losses are over all sequences, in nats per token; the accuracy is the share of test tokens whose prediction is the
    majority class; the angle of the queries is weighted by the classes' numbers of training tokens.
    """
    parameters = model.loss_parameters()
    training_loss, _ = loss_of(parameters, training.counts, training.label)
    test_loss, right = loss_of(parameters, test.counts, test.label)
    mean, std = query_angle(model.keys_and_queries()[1], training.class_tokens)
    return {
        "train_loss": training_loss.item(),
        "test_loss": test_loss.item(),
        "test_accuracy": right.item() / test.class_tokens.sum().item(),
        "query_angle_mean": mean,
        "query_angle_std": std,
    }


def query_angle(
    queries: Float[Tensor, "classes d_model"], class_tokens: Float[Tensor, " classes"]
) -> tuple[float, float]:
    """Mean and standard deviation, in degrees, of the angle between a query and the line of the ones vector.

    The angle is between 0 and 90; both numbers are over tokens, of which class c makes up the share
    class_tokens[c] / sum(class_tokens).
    """
    queries = queries.double()
    cosine = queries.sum(dim=-1).abs() / (queries.norm(dim=-1) * queries.shape[-1] ** 0.5)
    angle = torch.rad2deg(torch.acos(cosine.clamp(max=1.0)))
    weight = class_tokens / class_tokens.sum()
    mean = (weight * angle).sum()
    return mean.item(), (weight * (angle - mean).square()).sum().sqrt().item()


def vectors_of(model: MajorityTransformer) -> pd.DataFrame:
    """The keys, then the queries, of every class: the columns token, kind and vector of `majority_vectors`."""
    keys, queries = (x.detach().double().cpu().numpy() for x in model.keys_and_queries())
    return pd.concat(
        pd.DataFrame({"token": range(len(vectors)), "kind": kind, "vector": list(vectors)})
        for kind, vectors in (("key", keys), ("query", queries))
    )


def refuse_nan(metrics: Mapping[str, float | int], title: str) -> None:
    """Raise ValueError if a loss in `metrics`, a row of `majority_metrics`, is not finite; `title` names the run."""
    for name in ("train_loss", "test_loss"):
        if not np.isfinite(metrics[name]):
            raise ValueError(
                f"{title}: {name} is {metrics[name]} at step {metrics['step']}; expected a finite number. "
                "A smaller learning_rate, or a norm that is finite everywhere, may help"
            )

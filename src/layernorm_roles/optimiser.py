"""The optimiser AdamW, and a learning rate that falls linearly to 0, with or without a warm-up."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


def linear_decay(learning_rate: float, step: int, last: int, warmup: int = 0) -> float:
    """The learning rate at step `step`, which falls linearly from `learning_rate` at step 0 to 0 at step `last`.

    After that it is 0. In the first `warmup` steps it is multiplied by 1 / warmup, 2 / warmup and so on, up to 1.
    """
    return learning_rate * max(0.0, 1 - step / last) * min(1.0, (step + 1) / max(warmup, 1))


def rate_taken(learning_rate: float, step: int, last: int, warmup: int = 0) -> float:
    """The learning rate of the latest training step, as `linear_decay` gives it, when `step` steps have been taken.

    If `step` is 0, the result is the rate of the first step. The other arguments are those of `linear_decay`.
    """
    return linear_decay(learning_rate, max(step - 1, 0), last, warmup)


class AdamW:
    """AdamW with torch's betas, but without the import of torch's compiler, which takes a second.

    It calls the function behind `torch.optim.AdamW(fused=True)`, so that state and results equal those of torch's
    class. Without weight decay they equal Adam's. Parameters whose gradient is None are not changed. The learning rate
    `lr` may be set between steps. `factors` maps a parameter to (rows, factor): the learning rate of its first `rows`
    rows is `factor` times `lr`.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        factors: Mapping[nn.Parameter, tuple[int, float]] = {},
    ):
        self.parameters, self.weight_decay = list(parameters), weight_decay
        self.lr, self.eps, self.factors = lr, eps, dict(factors)
        self.state: list[dict[str, Tensor]] = []
        """For each parameter, how many steps it took and the running means of its gradient and squared gradient."""
        for parameter in self.parameters:
            zero = torch.zeros_like(parameter.detach())
            step = zero.new_zeros((), dtype=torch.float32)
            self.state.append({"step": step, "exp_avg": zero, "exp_avg_sq": zero.clone()})

    @torch.no_grad()
    def step(self) -> None:
        """Update each parameter once, by the gradient in its `grad`; parameters without a gradient stay as they are."""
        by_factor: dict[float, list[tuple[Tensor, ...]]] = {}
        for parameter, state in zip(self.parameters, self.state, strict=True):
            if parameter.grad is None:
                continue
            tensors = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"])
            rows, factor = self.factors.get(parameter, (0, 1.0))
            if rows:
                # The step is counted once, in the update of the other rows.
                first = (*(tensor[:rows] for tensor in tensors), state["step"].clone())
                by_factor.setdefault(factor, []).append(first)
            rest = tensors if not rows else tuple(tensor[rows:] for tensor in tensors)
            by_factor.setdefault(1.0, []).append((*rest, state["step"]))
        for factor, updates in by_factor.items():
            parameters, gradients, means, squares, steps = map(list, zip(*updates, strict=True))
            adam(
                parameters,
                gradients,
                means,
                squares,
                [],
                steps,
                fused=True,
                foreach=False,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                weight_decay=self.weight_decay,
                decoupled_weight_decay=True,
                eps=self.eps,
                maximize=False,
                lr=self.lr * factor,
            )

"""The optimiser AdamW, and a learning rate that falls linearly to 0, with or without a warm-up."""

from collections.abc import Iterable

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
    """AdamW with torch's betas and eps, but without the import of torch's compiler, which takes a second.

    It calls the function behind `torch.optim.AdamW(fused=True)`, so that state and results equal those of torch's
    class. Without weight decay they equal Adam's. Parameters whose gradient is None are not changed. The learning rate
    `lr` may be set between steps.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0):
        self.parameters, self.weight_decay = list(parameters), weight_decay
        self.lr = lr
        self.state: list[dict[str, Tensor]] = []
        """For each parameter, how many steps it took and the running means of its gradient and squared gradient."""
        for parameter in self.parameters:
            zero = torch.zeros_like(parameter.detach())
            step = zero.new_zeros((), dtype=torch.float32)
            self.state.append({"step": step, "exp_avg": zero, "exp_avg_sq": zero.clone()})

    @torch.no_grad()
    def step(self) -> None:
        """Update each parameter once, by the gradient in its `grad`; parameters without a gradient stay as they are."""
        moved = [
            (parameter, state)
            for parameter, state in zip(self.parameters, self.state, strict=True)
            if parameter.grad is not None
        ]
        adam(
            [parameter for parameter, _ in moved],
            [parameter.grad for parameter, _ in moved],
            [state["exp_avg"] for _, state in moved],
            [state["exp_avg_sq"] for _, state in moved],
            [],
            [state["step"] for _, state in moved],
            fused=True,
            foreach=False,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self.weight_decay,
            decoupled_weight_decay=True,
            eps=1e-8,
            maximize=False,
            lr=self.lr,
        )

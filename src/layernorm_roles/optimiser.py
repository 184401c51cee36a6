"""Adam on a flat vector of parameters, and a learning rate that falls linearly to 0."""

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


def linear_decay(learning_rate: float, step: int, last: int) -> float:
    """The learning rate of `step`: it falls linearly from `learning_rate` at step 0 to 0 at step `last` and later."""
    return learning_rate * max(0.0, 1 - step / last)


def set_learning_rate(optimiser: "torch.optim.Optimizer | FlatAdam", rate: float) -> None:
    """Let an optimiser take its next steps with the learning rate `rate`, also where a CUDA graph takes them."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class FlatAdam:
    """torch's Adam on one vector of parameters; `torch.optim.Adam` itself would take a second to import.

    It calls the function behind `torch.optim.Adam(fused=True)`, with torch's default betas and eps, so that its state
    and its results are those of that class. `param_groups` has of that class' what changes: the learning rate, and
    whether a CUDA graph may hold the steps.
    """

    def __init__(self, parameter: nn.Parameter, lr: float):
        self.parameter = parameter
        self.param_groups = [{"lr": lr, "capturable": False}]
        zero = torch.zeros_like(parameter.detach())
        self.state: dict[str, Tensor] = {
            "step": zero.new_zeros(()),
            "exp_avg": zero,
            "exp_avg_sq": zero.clone(),
        }

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters once, by the gradient that autograd left in them."""
        adam(
            [self.parameter],
            [self.parameter.grad],
            [self.state["exp_avg"]],
            [self.state["exp_avg_sq"]],
            [],
            [self.state["step"]],
            fused=True,
            foreach=False,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
            **self.param_groups[0],
        )

    def state_dict(self) -> dict:
        """The step, and the running means of the gradient and its square, in the form of torch.optim's `state_dict`."""
        return {"state": {0: self.state}, "param_groups": []}

    def load_state_dict(self, kept: dict) -> None:
        """Go on from the state `kept`, a `state_dict`, which is moved to the device of the parameters."""
        self.state = {name: value.to(self.parameter.device) for name, value in kept["state"][0].items()}

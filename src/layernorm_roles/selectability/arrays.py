"""Matrices as people have them, tensors of torch above all, as arrays that `certify` and `ceilings` take."""

import numpy as np
from numpy.typing import ArrayLike


def as_matrix(values: ArrayLike) -> np.ndarray:
    """The numbers of `values` as an array; a torch tensor may require gradients, lie on a GPU, or be bfloat16.

    bfloat16 becomes float32, which holds it exactly; every other dtype stays. Anything but a tensor goes through
    numpy.asarray.

    >>> import torch
    >>> as_matrix(torch.nn.Linear(3, 2, dtype=torch.bfloat16).weight).dtype
    dtype('float32')
    """
    if not hasattr(values, "detach"):
        return np.asarray(values)
    import torch  # whose start takes longer than most certificates; who has a tensor has it already

    tensor = values.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

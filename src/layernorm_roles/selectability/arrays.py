"""The array types of this package, and the conversion of tensors and other matrices to checked arrays."""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from layernorm_roles.slices import slices

Keys = Float[np.ndarray, "m n d"]
"""Type of an array of m matrices, each of which has n keys of size d as its rows."""
Numbers = Float[np.ndarray, "m n"]
"""Type of an array with one number for each of the n keys of m matrices, such as a bias."""
Flags = Bool[np.ndarray, "m n"]
"""Type of an array with one Boolean for each of the n keys of m matrices."""
Rows = Int[np.ndarray, " k"]
"""Type of an array of the indices, from 0 and in ascending order, of k keys, rows of a matrix."""

_BLOCK = 1 << 23  # entries of a block of rows: 64 MiB in float64
_SMALLEST = 1e-300  # of a column's largest magnitude: float64 has full precision, and reciprocals are finite


def as_matrix(values: ArrayLike) -> np.ndarray:
    """Convert `values` to a NumPy array; a torch tensor may require gradients, be on a GPU or have dtype bfloat16.

    bfloat16, which NumPy lacks, becomes float32; other dtypes stay. All but tensors go through numpy.asarray.

    >>> import torch
    >>> as_matrix(torch.nn.Linear(3, 2, dtype=torch.bfloat16).weight).dtype
    dtype('float32')
    """
    if not hasattr(values, "detach"):
        return np.asarray(values)
    import torch  # whose start takes longer than most certificates; who has a tensor has it already

    tensor = values.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def checked(values: ArrayLike, name: str, dimensions: int) -> np.ndarray:
    """Convert `values` to an array of finite float32 or float64 numbers, or raise ValueError.

    float16 becomes float32, and integers become float64. Raises ValueError, whose message calls the array `name`, if
    values are not finite real numbers or are masked, or if the array is empty or does not have `dimensions` dimensions.
    Integers beyond 2^53, and longer floats that float64 does not hold exactly, are refused, too; and so is a column
    (last axis) whose largest magnitude is above 0 and below 1e-300.
    """
    try:
        given = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        fault = f"not an array: {error}"
        if hasattr(values, "detach"):
            use = f"layernorm_roles.selectability.as_matrix({name})"
            fault = f"a tensor that NumPy does not read ({error}): pass {use}"
        raise ValueError(f"{name}: {fault}") from None
    if np.ma.is_masked(values):
        where = _first(np.ma.getmaskarray(values))
        raise ValueError(
            f"{name} is masked at {where}: expected numbers; leave out the rows that do not count"
        )
    if given.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {given.dtype}: expected real numbers, such as float32 or float64")
    if given.ndim != dimensions:
        raise ValueError(f"{name} has shape {given.shape}: expected {dimensions} dimensions")
    if given.size == 0:
        raise ValueError(f"{name} is empty: shape {given.shape}")
    single = given.dtype.kind == "f" and given.dtype.itemsize <= 4  # in either byte order
    array = given.astype(np.float32 if single else np.float64, copy=False)
    _refuse_inexact(given, array, name)
    largest = largest_magnitude(array, axis=tuple(range(max(1, array.ndim - 1))), keepdims=array.ndim == 1)
    if not np.isfinite(largest).all():
        where = _first(~np.isfinite(array))
        raise ValueError(f"{name} has {array[where]} at {where}: expected finite numbers")
    if (lost := (largest > 0) & (largest < _SMALLEST)).any():
        column = int(np.argmax(lost))
        raise ValueError(
            f"{name}: column {column} has no entry above {largest[column]:g}: expected 0 or at least {_SMALLEST:g}, "
            "since smaller numbers lose their digits"
        )
    return array


def double(values: np.ndarray) -> Float[np.ndarray, "..."]:
    """Convert `values` to float64; an array that already is float64 is returned itself, not as a copy."""
    return values.astype(np.float64, copy=False)


def row_blocks(n: int, entries: int, least: int = 1) -> list[slice]:
    """Divide n rows of `entries` numbers each into consecutive slices of at most 64 MiB in float64."""
    return slices(n, max(least, _BLOCK // entries))


def largest_magnitude(
    values: Float[np.ndarray, "..."], axis: int | tuple[int, ...], keepdims: bool = False
) -> np.ndarray:
    """The largest absolute value along `axis`, computed without a copy of `values`."""
    return np.maximum(values.max(axis, keepdims=keepdims), -values.min(axis, keepdims=keepdims))


def _refuse_inexact(given: np.ndarray, array: np.ndarray, name: str) -> None:
    """Raise ValueError if float64 `array` does not hold `given` exactly: integers beyond 2^53, or longer floats."""
    if given.dtype.kind in "iu":
        lost = (given > 2**53) | (given < -(2**53))
        fault = ": expected integers up to 2^53, which float64 holds exactly"
    elif given.dtype.itemsize > 8:
        lost = (array != given) & (given == given)
        fault = f" in {given.dtype}: expected numbers of float64"
    else:
        return
    if lost.any():
        where = _first(lost)
        raise ValueError(f"{name} has {given[where]} at {where}{fault}")


def _first(condition: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(condition)[0])

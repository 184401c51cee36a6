"""A numba type for SIMD vectors of LANES float32 numbers, and the vector operations of which the CPU kernels consist.

With explicit vectors LLVM need not find out what can be vectorised, it splits them on processors with shorter ones, and
sums have one order on all processors. A tuple of vectors, such as a tile (of several rows), is kept in registers.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from layernorm_roles.compiling import IN_ONE, cached_njit, njit
from layernorm_roles.elementary import write_exp

LANES = 16
"""Length of a vector: the number of float32 numbers in the widest CPU vectors, those of AVX-512."""
TOGETHER = 8
"""Number of queries (or tokens) that a kernel processes in one pass over a tile of keys; a divisor of LANES."""

jit = cached_njit(error_model="numpy", nogil=True)
"""Decorator that compiles a kernel with numba; the kernel releases the GIL, so that it can run on several threads."""

inlined = njit(**IN_ONE)
"""Decorator for functions that numba inlines into the kernels that call them."""

ZERO, ONE = np.float32(0), np.float32(1)
GROUP: Any = (0,) * TOGETHER
"""A tuple of TOGETHER zeros: the length of a tuple tells numba how many vectors an operation takes."""


class Lanes(types.Type):
    """The numba type of a SIMD vector of 16 float32 numbers."""

    def __init__(self):
        super().__init__(name="Lanes")


_lanes = Lanes()
_FLOATS, INTS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(32), LANES)
_FUSED = ("contract",)  # a product and a sum may become one instruction


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, type_):
        super().__init__(manager, type_, _FLOATS)


class Code:
    """Emits LLVM instructions into a kernel that numba compiles, for functions decorated with `instruction`."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def constant(self, x: float, type_: ir.Type = _FLOATS) -> ir.Constant:
        """The LLVM constant of vector type `type_` whose 16 entries all equal the Python number x."""
        return ir.Constant(type_, [x] * LANES)

    def splat(self, x: ir.Value, type_: ir.Type = _FLOATS) -> ir.Value:
        """The LLVM vector of type `type_` whose 16 entries all equal the LLVM number x; emits the code for it."""
        undefined, first = ir.Constant(type_, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(undefined, x, first)
        return self.builder.shuffle_vector(one, undefined, self.constant(0, INTS))

    def integers(self, x: ir.Value) -> ir.Value:
        """The LLVM vector whose 16 entries all equal the LLVM integer x, cut to 32 bits; emits the code for it."""
        return self.splat(self.builder.trunc(x, ir.IntType(32)), INTS)

    def multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """The LLVM value of a * b + c, for floats or vectors of floats, with one rounding or two, as LLVM chooses."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)

    def plus(self, x: ir.Value, n: int) -> ir.Value:
        """The LLVM value of x + n, for an LLVM integer x and a Python integer n; emits the code for it."""
        return self.builder.add(x, x.type(n))


class Array:
    """An array argument of a function decorated with `instruction`; its methods emit code that accesses it."""

    def __init__(self, context, builder: ir.IRBuilder, type_: types.Array, value: ir.Value):
        self.context, self.builder, self.type = context, builder, type_
        self.struct = context.make_array(type_)(context, builder, value)

    def pointer(self, *place: ir.Value) -> ir.Value:
        """The LLVM address of the array's element whose indices are `place`, one LLVM integer for each axis."""
        return cgutils.get_item_pointer(self.context, self.builder, self.type, self.struct, place)

    def element(self, *place: ir.Value) -> ir.Value:
        """The LLVM value of the array's element whose indices are `place`, one LLVM integer for each axis."""
        return self.builder.load(self.pointer(*place))

    def load(self, *place: ir.Value) -> ir.Value:
        """The LLVM vector of the 16 float32 elements on the last axis from the indices `place`, LLVM integers, on."""
        vector = self.builder.bitcast(self.pointer(*place), _FLOATS.as_pointer())
        return self.builder.load(vector, align=4)

    def store(self, x: ir.Value, *place: ir.Value) -> None:
        """Emit code that writes the LLVM vector x to 16 elements on the last axis, from the indices `place` on."""
        vector = self.builder.bitcast(self.pointer(*place), _FLOATS.as_pointer())
        self.builder.store(x, vector, align=4)


def instruction(result: types.Type | Callable[..., types.Type]) -> Callable:
    """A decorator that makes a function which emits LLVM instructions callable from compiled kernels.

    Kernels leave out the function's first argument, a `Code`, by which it emits instructions. For other arguments it
    gets an `Array` for an array, a list for a tuple, else an LLVM value. It returns an LLVM value, a list for a tuple,
    or None. `result` is the numba type of the returned value, or a function from the arguments' types to it.
    """

    def decorate(function: Callable) -> Callable:
        @wraps(function)  # with the signature, whose first parameter numba leaves out
        def define(typing, *given):
            returned = result if isinstance(result, types.Type) else result(*given)

            def code(context, builder, signature, values):
                def argument(type_, value):
                    if isinstance(type_, types.BaseTuple):
                        members = cgutils.unpack_tuple(builder, value, len(type_))
                        return [argument(*member) for member in zip(type_, members, strict=True)]
                    is_array = isinstance(type_, types.Array)
                    return Array(context, builder, type_, value) if is_array else value

                out = function(Code(builder), *map(argument, signature.args, values))
                if isinstance(out, list):
                    return context.make_tuple(builder, returned, out)
                return context.get_dummy_value() if out is None else out

            return returned(*given), code

        return intrinsic(define)

    return decorate


def _first(given: types.Type, *_) -> types.Type:
    return given


@instruction(_lanes)
def splat(write, x):
    """In a kernel, splat(x) is the SIMD vector whose 16 entries all equal x (for `write` see `instruction`)."""
    return write.splat(x)


@instruction(_first)
def exp(write, x):
    """In a kernel, exp(x) has the exponentials of all numbers, at most 0 each, in a tuple x of SIMD vectors.

    Errors are at most 3 units in the last place; below -87 the result is exp(-87). For `write` see `instruction`.
    """
    return [write_exp(write.builder, member, quick=True) for member in x]


@instruction(_first)
def first_lanes(write, vectors, count, more, other):
    """In a kernel, first_lanes(vectors, count, more, other) replaces the last entries of SIMD vectors by `other`.

    Vector g of the tuple `vectors` keeps its first count + g * more entries, of 16. For `write` see `instruction`.
    """
    builder, places, chosen = write.builder, ir.Constant(INTS, list(range(LANES))), []
    for x in vectors:
        inside = builder.icmp_signed("<", places, write.integers(count))
        chosen.append(builder.select(inside, x, write.splat(other)))
        count = builder.add(count, more)
    return chosen


@instruction(types.UniTuple(_lanes, TOGETHER))
def splats(write, numbers, i):
    """In a kernel, splats(numbers, i) has 8 SIMD vectors; the 16 entries of vector n equal numbers[i + n]."""
    return [write.splat(numbers.element(write.plus(i, n))) for n in range(TOGETHER)]


def _larger(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_unordered(">", x, y), x, y)


def _member_by_member(combine: Callable[..., ir.Value]) -> Callable:
    """Makes a function for kernels that applies `combine` to two tuples of vectors, member by member."""

    @instruction(_first)
    def function(write, x, y):
        return [combine(write.builder, a, b) for a, b in zip(x, y, strict=True)]

    return function


plus = _member_by_member(lambda builder, x, y: builder.fadd(x, y, flags=_FUSED))
minus = _member_by_member(lambda builder, x, y: builder.fsub(x, y, flags=_FUSED))
maximum = _member_by_member(_larger)
times = _member_by_member(lambda builder, x, y: builder.fmul(x, y, flags=_FUSED))


def _folded(write: Code, x: ir.Value, combine: Callable[..., ir.Value]) -> ir.Value:
    """The number to which `combine` reduces the vector x, which it halves again and again."""
    width = LANES
    while width > 1:
        width //= 2
        type_ = ir.VectorType(ir.IntType(32), width)
        halves = (ir.Constant(type_, list(range(first, first + width))) for first in (0, width))
        x = combine(write.builder, *(write.builder.shuffle_vector(x, x, half) for half in halves))
    return write.builder.extract_element(x, ir.IntType(32)(0))


@instruction(types.float32)
def row_sum(write, a, row):
    """In a kernel, row_sum(a, row) is the sum of a[row, :16], for an array `a` (for `write` see `instruction`)."""
    return _folded(write, a.load(row, row.type(0)), lambda builder, x, y: builder.fadd(x, y))


@instruction(types.float32)
def lane_maximum(write, x):
    """In a kernel, lane_maximum(x) is the largest number in the SIMD vector x (for `write` see `instruction`)."""
    return _folded(write, x, _larger)


@instruction(_first)
def add_dots(write, sums, a, i, b, row, j, block):
    """Return the vectors of 16 numbers in the tuple `sums` plus inner products, in a kernel that numba compiles.

    sums[g] grows by the sum of a[c, i + g] * b[c, j : j + 16] over len(block) rows c from `row` on. Only the length of
    the tuple `block` counts. Calls leave out `write`, which emits the instructions while numba compiles.
    """
    for c in range(len(block)):
        vector = b.load(write.plus(row, c), j)
        weights = (write.splat(a.element(write.plus(row, c), write.plus(i, g))) for g in range(len(sums)))
        sums = [write.multiply_add(x, vector, total) for x, total in zip(weights, sums, strict=True)]
    return sums


@instruction(_first)
def add_means_of(write, sums, vectors, v, row, j):
    """In a kernel, return the tuple `sums` of SIMD vectors plus products of `vectors` and two rows of `v`.

    sums[2 * g + c] increases by vectors[g] * v[row + c, j : j + 16], for each g and for c = 0, 1. Kernels omit `write`.
    """
    values = [v.load(write.plus(row, c), j) for c in (0, 1)]
    products = ((x, y) for x in vectors for y in values)
    return [write.multiply_add(x, y, total) for (x, y), total in zip(products, sums, strict=True)]


@instruction(types.none)
def add_products(write, vectors, weights, query, a, row, column, like):
    """In a kernel, add products of SIMD vectors and numbers from `weights` to 16 columns of the array `a`.

    For each of the len(like) rows r from `row` on, the sum over g of vectors[g] weights[r, query + g] is added to a[r,
    column : column + 16]. Kernels leave out `write` (see `instruction`).
    """
    for c in range(len(like)):
        place = write.plus(row, c)
        total = a.load(place, column)
        for g, x in enumerate(vectors):
            weight = weights.element(place, write.plus(query, g))
            total = write.multiply_add(x, write.splat(weight), total)
        a.store(total, place, column)


@instruction(lambda a, j, like: types.UniTuple(_lanes, len(like)))
def load_tile(write, a, j, like):
    """In a kernel, load_tile(a, j, like) is a tuple of SIMD vectors; vector n is a[n, j : j + 16].

    It has as many vectors as the tuple `like` has members. Kernels leave out `write` (see `instruction`).
    """
    return [a.load(j.type(n), j) for n in range(len(like))]


@instruction(types.none)
def store_tile(write, vectors, a, j):
    """In a kernel, store_tile(vectors, a, j) writes vectors[n] to a[n, j : j + 16], for a tuple of SIMD vectors."""
    for n, x in enumerate(vectors):
        a.store(x, j.type(n), j)


@instruction(_first)
def where(write, vectors, mask, row, column):
    """In a kernel, return SIMD vectors after dropout: entry l of vectors[g] is set to 0 if a bit of `mask` is 0.

    It is bit l of mask[row + g, column]. Kernels leave out the argument `write` (see `instruction`).
    """
    builder, type_ = write.builder, ir.VectorType(ir.IntType(1), LANES)
    words = (mask.element(write.plus(row, g), column) for g in range(len(vectors)))
    bits = [builder.bitcast(word, type_) for word in words]
    return [builder.select(kept, x, write.constant(0.0)) for kept, x in zip(bits, vectors, strict=True)]

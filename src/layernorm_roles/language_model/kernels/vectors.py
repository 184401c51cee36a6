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
    """The numba type of a SIMD vector of LANES (16) float32 numbers."""

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
    """A writer of LLVM instructions into the kernel being compiled, for functions decorated with `instruction`."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def constant(self, x: float, type_: ir.Type = _FLOATS) -> ir.Constant:
        """The LLVM constant of vector type `type_` whose LANES (16) entries all equal the Python number x."""
        return ir.Constant(type_, [x] * LANES)

    def splat(self, x: ir.Value, type_: ir.Type = _FLOATS) -> ir.Value:
        """The LLVM vector of type `type_` whose LANES (16) entries all equal the LLVM value x."""
        undefined, first = ir.Constant(type_, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(undefined, x, first)
        return self.builder.shuffle_vector(one, undefined, self.constant(0, INTS))

    def integers(self, x: ir.Value) -> ir.Value:
        """The LLVM vector whose LANES (16) entries all equal the LLVM integer x, truncated to 32 bits."""
        return self.splat(self.builder.trunc(x, ir.IntType(32)), INTS)

    def multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """The LLVM value a * b + c; LLVM may compute it with one rounding instead of two."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)

    def plus(self, x: ir.Value, n: int) -> ir.Value:
        """The LLVM integer x + n."""
        return self.builder.add(x, x.type(n))


class Array:
    """An array argument of a function decorated with `instruction`, whose methods emit LLVM code that accesses it."""

    def __init__(self, context, builder: ir.IRBuilder, type_: types.Array, value: ir.Value):
        self.context, self.builder, self.type = context, builder, type_
        self.struct = context.make_array(type_)(context, builder, value)

    def pointer(self, *place: ir.Value) -> ir.Value:
        """The LLVM address of the array's element with the indices `place`, one LLVM integer for each axis."""
        return cgutils.get_item_pointer(self.context, self.builder, self.type, self.struct, place)

    def element(self, *place: ir.Value) -> ir.Value:
        """The LLVM value of the array's element with the indices `place`."""
        return self.builder.load(self.pointer(*place))

    def load(self, *place: ir.Value) -> ir.Value:
        """The vector of LANES (16) elements along the array's last axis, beginning at the indices `place`."""
        vector = self.builder.bitcast(self.pointer(*place), _FLOATS.as_pointer())
        return self.builder.load(vector, align=4)

    def store(self, x: ir.Value, *place: ir.Value) -> None:
        """Write the vector x to LANES (16) elements along the array's last axis, beginning at the indices `place`."""
        vector = self.builder.bitcast(self.pointer(*place), _FLOATS.as_pointer())
        self.builder.store(x, vector, align=4)


def instruction(result: types.Type | Callable[..., types.Type]) -> Callable:
    """A decorator by which compiled kernels can call a function that emits LLVM instructions.

    Kernels call the function without its first argument, a `Code`. The function gets an `Array` for each array, a list
    for each tuple, and an LLVM value for every other argument. It returns an LLVM value, a list for a tuple, or None.
    `result` is the numba type of what it returns, or a function from the arguments' numba types to that type.
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
    """The vector whose LANES (16) entries all equal the number x."""
    return write.splat(x)


@instruction(_first)
def exp(write, x):
    """The exponentials of the numbers in a tuple x of vectors, all at most 0, to 3 units in the last place.

    For numbers below -87 the result is exp(-87).
    """
    return [write_exp(write.builder, member, quick=True) for member in x]


@instruction(_first)
def first_lanes(write, vectors, count, more, other):
    """The tuple `vectors` with all but the first entries (lanes) of each vector replaced by the number `other`.

    vectors[g] keeps its first count + g * more entries.
    """
    builder, places, chosen = write.builder, ir.Constant(INTS, list(range(LANES))), []
    for x in vectors:
        inside = builder.icmp_signed("<", places, write.integers(count))
        chosen.append(builder.select(inside, x, write.splat(other)))
        count = builder.add(count, more)
    return chosen


@instruction(types.UniTuple(_lanes, TOGETHER))
def splats(write, numbers, i):
    """A tuple of TOGETHER (8) vectors: all LANES (16) entries of vector n equal numbers[i + n]."""
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
    """The sum of the first LANES (16) elements of row `row` of the array `a`."""
    return _folded(write, a.load(row, row.type(0)), lambda builder, x, y: builder.fadd(x, y))


@instruction(types.float32)
def lane_maximum(write, x):
    """The largest of the LANES (16) numbers in the vector x."""
    return _folded(write, x, _larger)


@instruction(_first)
def add_dots(write, sums, a, i, b, row, j, block):
    """The tuple `sums` of vectors, increased by inner products of columns of `a` with LANES (16) columns of `b`.

    The sum over c < len(block) of a[row + c, i + g] b[row + c, j : j + LANES] is added to sums[g], for every g.
    """
    for c in range(len(block)):
        vector = b.load(write.plus(row, c), j)
        weights = (write.splat(a.element(write.plus(row, c), write.plus(i, g))) for g in range(len(sums)))
        sums = [write.multiply_add(x, vector, total) for x, total in zip(weights, sums, strict=True)]
    return sums


@instruction(_first)
def add_means_of(write, sums, vectors, v, row, j):
    """The tuple `sums` of vectors, increased by the products of each of `vectors` with parts of two rows of `v`.

    vectors[g] v[row + c, j : j + LANES] is added to sums[2 * g + c], for every g and for c = 0 and 1; LANES is 16.
    """
    values = [v.load(write.plus(row, c), j) for c in (0, 1)]
    products = ((x, y) for x in vectors for y in values)
    return [write.multiply_add(x, y, total) for (x, y), total in zip(products, sums, strict=True)]


@instruction(types.none)
def add_products(write, vectors, weights, query, a, row, column, like):
    """Add sums of products of `vectors` and numbers in `weights` to LANES (16) columns of the array `a`.

    The sum over g of vectors[g] weights[r, query + g] is added to a[r, column : column + LANES] in len(like) rows r,
    from `row` on.
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
    """The tuple of the vectors of LANES (16) elements of the array `a` that begin at (0, j), (1, j) and so on.

    It has as many vectors as the tuple `like` has members.
    """
    return [a.load(j.type(n), j) for n in range(len(like))]


@instruction(types.none)
def store_tile(write, vectors, a, j):
    """Write each vector vectors[n] of a tuple to the LANES (16) elements of the array `a` that begin at (n, j)."""
    for n, x in enumerate(vectors):
        a.store(x, j.type(n), j)


@instruction(_first)
def where(write, vectors, mask, row, column):
    """The tuple `vectors` after dropout: entry l of vectors[g] is 0 unless bit l of mask[row + g, column] is set."""
    builder, type_ = write.builder, ir.VectorType(ir.IntType(1), LANES)
    words = (mask.element(write.plus(row, g), column) for g in range(len(vectors)))
    bits = [builder.bitcast(word, type_) for word in words]
    return [builder.select(kept, x, write.constant(0.0)) for kept, x in zip(bits, vectors, strict=True)]

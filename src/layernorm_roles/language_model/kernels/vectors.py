"""Vectors of LANES numbers of float32, as a type of numba, and the operations that the kernels are written in.

LLVM does not have to find out what can be vectorised, splits vectors where a processor's are shorter, and prefers no
shorter ones on the processors on which it would by itself; sums have an order that no processor changes. Tuples of
vectors stay in registers: a tile is a tuple of vectors of several rows.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from layernorm_roles.compiling import cached_njit, njit

LANES = 16
"""Columns that are computed at once: numbers of float32 in the widest vectors of a CPU, those of AVX-512."""
TOGETHER = 8
"""Queries, or tokens, that share one pass over a tile of keys; a divisor of LANES."""

jit = cached_njit(error_model="numpy", nogil=True)
"""The compiler's options for a kernel; other Python threads go on while it runs."""

inlined = njit(forceinline=True, error_model="numpy")
"""The compiler's options for a function that a kernel calls. Without forceinline a process that compiles would run
another copy of the function, with other roundings, than one that loads the kernel from numba's cache."""


ZERO, ONE, LEAST = np.float32(0), np.float32(1), np.float32(-np.inf)
GROUP: Any = (0,) * TOGETHER
TILE: Any = ((0, 0),) * TOGETHER
NARROW: Any = ((0,),) * TOGETHER
ROW: Any = ((0,),)
PAIR: Any = (0, 0)
BOTH: Any = ((0,),) * (2 * TOGETHER)


class Lanes(types.Type):
    """numba's type of a vector of LANES numbers of float32, with +, -, * and /."""

    def __init__(self):
        super().__init__(name="Lanes")


_lanes = Lanes()
_FLOATS, INTS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(32), LANES)
_FUSED = ("contract",)  # a product and a sum may become one instruction


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, type_):
        super().__init__(manager, type_, _FLOATS)


def _register(operation: Callable, instruction: str) -> None:
    """Give Lanes the operator `operation`, as LLVM's `instruction`."""

    @infer_global(operation)
    class _Typing(ConcreteTemplate):
        cases = (signature(_lanes, _lanes, _lanes),)

    def lower(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments, flags=_FUSED)

    lower_builtin(operation, _lanes, _lanes)(lower)


_register(operator.add, "fadd")
_register(operator.sub, "fsub")
_register(operator.mul, "fmul")
_register(operator.truediv, "fdiv")


class Code:
    """Writes LLVM's instructions for one call of an intrinsic. Arrays are matrices, vectors lie along their rows."""

    def __init__(self, context, builder, signature, arguments):
        self.context, self.builder, self.types = context, builder, signature.args
        self.arguments, self.result = arguments, signature.return_type

    def constant(self, x: float, type_: ir.Type = _FLOATS) -> ir.Constant:
        """A vector of equal numbers that are known when the code is written."""
        return ir.Constant(type_, [x] * LANES)

    def splat(self, x: ir.Value, type_: ir.Type = _FLOATS) -> ir.Value:
        """A vector of equal numbers."""
        undefined, first = ir.Constant(type_, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(undefined, x, first)
        return self.builder.shuffle_vector(one, undefined, self.constant(0, INTS))

    def multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, which LLVM may round once."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)

    def pointer(self, array: int, row: ir.Value, offset: int, column: ir.Value) -> ir.Value:
        """Where argument number `array` has its element (row + offset, column)."""
        type_ = self.types[array]
        struct = self.context.make_array(type_)(self.context, self.builder, self.arguments[array])
        shape, strides = (cgutils.unpack_tuple(self.builder, s, 2) for s in (struct.shape, struct.strides))
        place = [self.builder.add(row, row.type(offset)), column]
        return cgutils.get_item_pointer2(
            self.context, self.builder, struct.data, shape, strides, type_.layout, place
        )

    def vector(self, array: int, row: ir.Value, offset: int, column: ir.Value) -> ir.Value:
        """Where argument number `array` has the vector that begins at (row + offset, column)."""
        return self.builder.bitcast(self.pointer(array, row, offset, column), _FLOATS.as_pointer())

    def load(self, array: int, row: ir.Value, offset: int, column: ir.Value) -> ir.Value:
        """The vector of argument number `array` that begins at (row + offset, column)."""
        return self.builder.load(self.vector(array, row, offset, column), align=4)

    def store(self, x: ir.Value, array: int, row: ir.Value, offset: int, column: ir.Value) -> None:
        """Write vector x into argument number `array`, from (row + offset, column) on."""
        self.builder.store(x, self.vector(array, row, offset, column), align=4)

    def after(self, column: ir.Value, vectors: int) -> ir.Value:
        """The column that lies so many vectors after `column`."""
        return self.builder.add(column, column.type(vectors * LANES))

    def members(self, argument: int) -> Sequence[ir.Value]:
        """The members of an argument that is a tuple."""
        return cgutils.unpack_tuple(self.builder, self.arguments[argument], len(self.types[argument]))

    def tuple(self, members: Sequence[ir.Value]) -> ir.Value:
        """The intrinsic's result, a tuple of these members."""
        return self.context.make_tuple(self.builder, self.result, members)


def _many(tuple_: types.BaseTuple) -> types.UniTuple:
    """The type of a tuple of as many vectors as `tuple_` has members."""
    return types.UniTuple(_lanes, len(tuple_))


@intrinsic
def splat(typing, x):
    """A vector of equal numbers x."""

    def code(*call):
        return Code(*call).splat(call[3][0])

    return _lanes(types.float32), code


EXPONENTIAL = (0.008297646, 0.041915417, 0.16667575, 0.49998894, 0.9999997, 1.0000001)
"""The polynomial, highest power first, of degree 5 whose largest relative error from exp on |r| <= ln(2)/2 is least:
8e-8, little more than a rounding."""


def _exp(write: Code, x: ir.Value) -> ir.Value:
    """exp(x) of a vector for x <= 0, to 3 units in the last place; for x below -87, exp(-87) = 2e-38; NaN stays NaN.

    The result is 2^k times `EXPONENTIAL` in r = x - k ln(2), where k is x / ln(2) rounded. Adding 1.5 * 2^23 rounds,
    and leaves k in the last bits of the sum, from where a shift by 23 takes it to a float's exponent.
    """
    builder, lowest, rounder = write.builder, write.constant(-87.0), write.constant(1.5 * 2.0**23)
    x = builder.select(builder.fcmp_ordered("<", x, lowest), lowest, x)
    shifted = write.multiply_add(x, write.constant(_rounded(1 / np.log(2))), rounder)
    k = builder.fsub(shifted, rounder)
    high = _rounded(np.log(2))
    r = write.multiply_add(k, write.constant(-high), x)
    r = write.multiply_add(k, write.constant(_rounded(high - np.log(2))), r)
    p = write.constant(_rounded(EXPONENTIAL[0]))
    for coefficient in EXPONENTIAL[1:]:
        p = write.multiply_add(p, r, write.constant(_rounded(coefficient)))
    exponent = builder.shl(builder.bitcast(shifted, INTS), write.constant(23, INTS))
    return builder.bitcast(builder.add(builder.bitcast(p, INTS), exponent), _FLOATS)


@intrinsic
def exp(typing, x):
    """`_exp` of a vector, or of each member of a tuple of vectors."""

    def code(*call):
        write = Code(*call)
        if isinstance(x, Lanes):
            return _exp(write, call[3][0])
        return write.tuple([_exp(write, member) for member in write.members(0)])

    return x(x), code


def _rounded(x: float) -> float:
    """x rounded to float32."""
    return float(np.float32(x))


@intrinsic
def first_lanes(typing, vectors, count, more, other):
    """The tuple of the first `count` lanes of vectors[0], of `more` more lanes of each vector after it, and of the
    number `other` in all lanes after them."""

    def code(*call):
        write, builder, (_, count, more, other) = Code(*call), call[1], call[3]
        places, words = ir.Constant(INTS, list(range(LANES))), ir.IntType(32)
        chosen = []
        for x in write.members(0):
            kept = builder.icmp_signed("<", places, write.splat(builder.trunc(count, words), INTS))
            chosen.append(builder.select(kept, x, write.splat(other)))
            count = builder.add(count, more)
        return write.tuple(chosen)

    return vectors(vectors, types.intp, types.intp, types.float32), code


@intrinsic
def splats(typing, numbers, i, like):
    """The numbers of an array from i on, each as a vector: as many as `like` has members."""

    def code(*call):
        write, builder, (array, i, _) = Code(*call), call[1], call[3]
        data = write.context.make_array(numbers)(write.context, builder, array).data
        places = (builder.add(i, i.type(n)) for n in range(len(like)))
        return write.tuple([write.splat(builder.load(builder.gep(data, [place]))) for place in places])

    return _many(like)(numbers, types.intp, like), code


def _member_by_member(combine: Callable[[Code, ir.Value, ir.Value], ir.Value]) -> Callable:
    """The function that combines two tuples of vectors member by member."""

    @intrinsic
    def function(typing, x, y):
        def code(*call):
            write = Code(*call)
            return write.tuple(
                [combine(write, a, b) for a, b in zip(write.members(0), write.members(1), strict=True)]
            )

        return x(x, y), code

    return function


plus = _member_by_member(lambda write, x, y: write.builder.fadd(x, y, flags=_FUSED))
minus = _member_by_member(lambda write, x, y: write.builder.fsub(x, y, flags=_FUSED))
maximum = _member_by_member(
    lambda write, x, y: write.builder.select(write.builder.fcmp_unordered(">", x, y), x, y)
)
times = _member_by_member(lambda write, x, y: write.builder.fmul(x, y, flags=_FUSED))


def _folded(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Callable:
    """The function that combines the halves of a vector, then those of the result, and so on to one number."""

    @intrinsic
    def fold(typing, x):
        def code(*call):
            builder, x = call[1], call[3][0]
            width = LANES
            while width > 1:
                width //= 2
                low, high = (
                    ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(first, first + width)))
                    for first in (0, width)
                )
                x = combine(builder, *(builder.shuffle_vector(x, x, half) for half in (low, high)))
            return builder.extract_element(x, ir.IntType(32)(0))

        return types.float32(_lanes), code

    return fold


lane_sum = _folded(lambda builder, x, y: builder.fadd(x, y))
lane_maximum = _folded(lambda builder, x, y: builder.select(builder.fcmp_unordered(">", x, y), x, y))


@intrinsic
def load(typing, a, row, column):
    """The vector of `a` that begins at (row, column)."""

    def code(*call):
        write, (_, row, column) = Code(*call), call[3]
        return write.load(0, row, 0, column)

    return _lanes(a, types.intp, types.intp), code


@intrinsic
def store(typing, x, a, row, column):
    """Write the vector x to `a`, from (row, column) on."""

    def code(*call):
        write, (x, _, row, column) = Code(*call), call[3]
        write.store(x, 1, row, 0, column)
        return call[0].get_dummy_value()

    return types.none(_lanes, a, types.intp, types.intp), code


@intrinsic
def add_dots(typing, sums, a, i, b, row, j, block):
    """The tuple `sums`, to whose member g is added the sum over c of a[row + c, i + g] times the vector of `b` that
    begins at (row + c, j), for as many rows c as `block` has members."""

    def code(*call):
        write, (_, _, i, _, row, j, _) = Code(*call), call[3]
        totals = write.members(0)
        for c in range(len(block)):
            vector = write.load(3, row, c, j)
            for g in range(len(totals)):
                place = write.pointer(1, row, c, write.builder.add(i, i.type(g)))
                totals[g] = write.multiply_add(write.splat(write.builder.load(place)), vector, totals[g])
        return write.tuple(totals)

    return sums(sums, a, types.intp, b, types.intp, types.intp, block), code


@intrinsic
def add_means_of(typing, sums, vectors, v, row, j, block):
    """The tuple `sums`, to whose member g B + c is added vectors[g] times the vector of `v` from (row + c, j) on, where
    B is the number of members of `block`."""

    def code(*call):
        write, (_, _, _, row, j, _) = Code(*call), call[3]
        values = [write.load(2, row, c, j) for c in range(len(block))]
        products = ((x, y) for x in write.members(1) for y in values)
        return write.tuple(
            [
                write.multiply_add(x, y, total)
                for (x, y), total in zip(products, write.members(0), strict=True)
            ]
        )

    return sums(sums, vectors, v, types.intp, types.intp, block), code


@intrinsic
def add_products(typing, vectors, weights, query, a, row, column, like):
    """For as many rows, from `row` on, as `like` has members: add to `a` from `column` on the sum over the tuple
    `vectors` of vectors[g] times the number weights[row, query + g]."""

    def code(*call):
        write, builder, (_, _, query, _, row, column, _) = Code(*call), call[1], call[3]
        for c in range(len(like)):
            total = write.load(3, row, c, column)
            for g, x in enumerate(write.members(0)):
                weight = builder.load(write.pointer(1, row, c, builder.add(query, query.type(g))))
                total = write.multiply_add(x, write.splat(weight), total)
            write.store(total, 3, row, c, column)
        return call[0].get_dummy_value()

    return types.none(vectors, weights, types.intp, a, types.intp, types.intp, like), code


@intrinsic
def absolute(typing, x):
    """The magnitude of a number in each lane."""

    def code(*call):
        return call[1].bitcast(
            call[1].and_(call[1].bitcast(call[3][0], INTS), Code(*call).constant(2**31 - 1, INTS)), _FLOATS
        )

    return _lanes(_lanes), code


@intrinsic
def if_positive(typing, x, y, z):
    """In each lane y where x is positive, and z where it is not."""

    def code(*call):
        builder, (x, y, z) = call[1], call[3]
        return builder.select(builder.fcmp_ordered(">", x, Code(*call).constant(0.0)), y, z)

    return _lanes(_lanes, _lanes, _lanes), code


@intrinsic
def load_tile(typing, a, i, j, like):
    """The vectors of as many rows of `a`, from i on, as `like` has members, and of as many in each row, from column j
    on, as such a member has: one row after another, as one tuple."""

    def code(*call):
        write, (_, i, j, _) = Code(*call), call[3]
        rows, width = len(like), len(like[0])
        return write.tuple(
            [write.load(0, i, n // width, write.after(j, n % width)) for n in range(rows * width)]
        )

    return types.UniTuple(_lanes, len(like) * len(like[0]))(a, types.intp, types.intp, like), code


@intrinsic
def store_tile(typing, vectors, a, i, j, like):
    """Write the tuple `vectors` to where `load_tile` would read it."""

    def code(*call):
        write, (_, _, i, j, _) = Code(*call), call[3]
        for n, x in enumerate(write.members(0)):
            write.store(x, 1, i, n // len(like[0]), write.after(j, n % len(like[0])))
        return call[0].get_dummy_value()

    return types.none(vectors, a, types.intp, types.intp, like), code


@intrinsic
def add_rank_one(typing, sums, a, i, k, b, j, like):
    """The tuple `sums`, a tile as of `load_tile`, plus the product of a[i:, k] and the vectors of b from (k, j) on."""

    def code(*call):
        write, (_, _, i, k, _, j, _) = Code(*call), call[3]
        vectors = [write.load(4, k, 0, write.after(j, v)) for v in range(len(like[0]))]
        weights = [write.splat(call[1].load(write.pointer(1, i, r, k))) for r in range(len(like))]
        products = ((x, y) for x in weights for y in vectors)
        tile = zip(products, write.members(0), strict=True)
        return write.tuple([write.multiply_add(x, y, total) for (x, y), total in tile])

    return sums(sums, a, types.intp, types.intp, b, types.intp, like), code


@intrinsic
def where(typing, vectors, kept, row, column):
    """The tuple `vectors`, of member g those lanes whose bits are set in kept[row + g, column], and 0 in the others."""

    def code(*call):
        write, builder, (_, _, row, column) = Code(*call), call[1], call[3]
        chosen = []
        for g, x in enumerate(write.members(0)):
            bits = builder.load(write.pointer(1, row, g, column))
            mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), LANES))
            chosen.append(builder.select(mask, x, write.constant(0.0)))
        return write.tuple(chosen)

    return vectors(vectors, kept, types.intp, types.intp), code

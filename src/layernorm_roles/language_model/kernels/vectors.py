"""Vectors of LANES numbers of float32, as a type of numba, and the operations that the kernels are written in.

LLVM does not have to find out what can be vectorised, splits vectors where a processor's are shorter, and prefers no
shorter ones on the processors on which it would by itself; sums have an order that no processor changes. Tuples of
vectors stay in registers: a tile is a tuple of vectors of several rows.
"""

import operator
from collections.abc import Callable
from functools import wraps
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
    """Writes LLVM's instructions for one call of an `instruction`."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def constant(self, x: float, type_: ir.Type = _FLOATS) -> ir.Constant:
        """A constant vector, whose `LANES` entries all equal the Python number `x`."""
        return ir.Constant(type_, [x] * LANES)

    def splat(self, x: ir.Value, type_: ir.Type = _FLOATS) -> ir.Value:
        """A vector of equal numbers."""
        undefined, first = ir.Constant(type_, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(undefined, x, first)
        return self.builder.shuffle_vector(one, undefined, self.constant(0, INTS))

    def integers(self, x: ir.Value) -> ir.Value:
        """A vector of equal integers of 32 bits."""
        return self.splat(self.builder.trunc(x, ir.IntType(32)), INTS)

    def multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, which LLVM may round once."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)

    def plus(self, x: ir.Value, n: int) -> ir.Value:
        """The integer x + n."""
        return self.builder.add(x, x.type(n))


class Array:
    """An array that an `instruction` is given; vectors lie along its last axis."""

    def __init__(self, context, builder: ir.IRBuilder, type_: types.Array, value: ir.Value):
        self.context, self.builder, self.type = context, builder, type_
        self.struct = context.make_array(type_)(context, builder, value)

    def pointer(self, *place: ir.Value) -> ir.Value:
        """The address of the element whose numbers along the axes are `place`."""
        axes = self.type.ndim
        shape = cgutils.unpack_tuple(self.builder, self.struct.shape, axes)
        strides = cgutils.unpack_tuple(self.builder, self.struct.strides, axes)
        options = shape, strides, self.type.layout, place
        return cgutils.get_item_pointer2(self.context, self.builder, self.struct.data, *options)

    def element(self, *place: ir.Value) -> ir.Value:
        """The element whose numbers along the axes are `place`."""
        return self.builder.load(self.pointer(*place))

    def load(self, *place: ir.Value) -> ir.Value:
        """The vector of LANES elements that begins at the element `place`."""
        vector = self.builder.bitcast(self.pointer(*place), _FLOATS.as_pointer())
        return self.builder.load(vector, align=4)

    def store(self, x: ir.Value, *place: ir.Value) -> None:
        """Write the vector x to the LANES elements from the element `place` on."""
        vector = self.builder.bitcast(self.pointer(*place), _FLOATS.as_pointer())
        self.builder.store(x, vector, align=4)


def instruction(result: types.Type | Callable[..., types.Type]) -> Callable:
    """A decorator that turns a function which writes LLVM's instructions into one that kernels can call.

    The decorated function takes a `Code`, then the kernel's arguments: an `Array` for an array, a list for a tuple, and
    else a value of LLVM. It returns a value of LLVM, a list for a tuple, or None. `result` is numba's type of what it
    returns, or a function that gives this type from the types of the arguments.
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

                found = function(Code(builder), *map(argument, signature.args, values))
                if isinstance(found, list):
                    return context.make_tuple(builder, returned, found)
                return context.get_dummy_value() if found is None else found

            return returned(*given), code

        return intrinsic(define)

    return decorate


def _first(given: types.Type, *_) -> types.Type:
    """The type of the first argument."""
    return given


@instruction(_lanes)
def splat(write, x):
    """A vector of equal numbers x."""
    return write.splat(x)


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


@instruction(_first)
def exp(write, x):
    """`_exp` of a vector, or of each member of a tuple of vectors."""
    return [_exp(write, member) for member in x] if isinstance(x, list) else _exp(write, x)


def _rounded(x: float) -> float:
    """x rounded to float32."""
    return float(np.float32(x))


@instruction(_first)
def first_lanes(write, vectors, count, more, other):
    """The tuple of the first `count` lanes of vectors[0], of `more` more lanes of each vector after it, and of the
    number `other` in all lanes after them."""
    builder, places, chosen = write.builder, ir.Constant(INTS, list(range(LANES))), []
    for x in vectors:
        inside = builder.icmp_signed("<", places, write.integers(count))
        chosen.append(builder.select(inside, x, write.splat(other)))
        count = builder.add(count, more)
    return chosen


@instruction(lambda numbers, i, like: types.UniTuple(_lanes, len(like)))
def splats(write, numbers, i, like):
    """The numbers of an array from i on, each as a vector: as many as `like` has members."""
    return [write.splat(numbers.element(write.plus(i, n))) for n in range(len(like))]


def _member_by_member(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Callable:
    """The function that combines two tuples of vectors member by member."""

    @instruction(_first)
    def function(write, x, y):
        return [combine(write.builder, a, b) for a, b in zip(x, y, strict=True)]

    return function


plus = _member_by_member(lambda builder, x, y: builder.fadd(x, y, flags=_FUSED))
minus = _member_by_member(lambda builder, x, y: builder.fsub(x, y, flags=_FUSED))
maximum = _member_by_member(lambda builder, x, y: builder.select(builder.fcmp_unordered(">", x, y), x, y))
times = _member_by_member(lambda builder, x, y: builder.fmul(x, y, flags=_FUSED))


def _folded(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Callable:
    """The function that combines the halves of a vector, then those of the result, and so on to one number."""

    @instruction(types.float32)
    def fold(write, x):
        width = LANES
        while width > 1:
            width //= 2
            low, high = (
                ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(first, first + width)))
                for first in (0, width)
            )
            x = combine(write.builder, *(write.builder.shuffle_vector(x, x, half) for half in (low, high)))
        return write.builder.extract_element(x, ir.IntType(32)(0))

    return fold


lane_sum = _folded(lambda builder, x, y: builder.fadd(x, y))
lane_maximum = _folded(lambda builder, x, y: builder.select(builder.fcmp_unordered(">", x, y), x, y))


@instruction(_lanes)
def load(write, a, row, column):
    """The vector of `a` that begins at (row, column)."""
    return a.load(row, column)


@instruction(types.none)
def store(write, x, a, row, column):
    """Write the vector x to `a`, from (row, column) on."""
    a.store(x, row, column)


@instruction(_first)
def add_dots(write, sums, a, i, b, row, j, block):
    """The tuple `sums`, to whose member g is added the sum over c of a[row + c, i + g] times the vector of `b` that
    begins at (row + c, j), for as many rows c as `block` has members."""
    for c in range(len(block)):
        vector = b.load(write.plus(row, c), j)
        weights = (write.splat(a.element(write.plus(row, c), write.plus(i, g))) for g in range(len(sums)))
        sums = [write.multiply_add(x, vector, total) for x, total in zip(weights, sums, strict=True)]
    return sums


@instruction(_first)
def add_means_of(write, sums, vectors, v, row, j, block):
    """The tuple `sums`, to whose member g B + c is added vectors[g] times the vector of `v` from (row + c, j) on, where
    B is the number of members of `block`."""
    values = [v.load(write.plus(row, c), j) for c in range(len(block))]
    products = ((x, y) for x in vectors for y in values)
    return [write.multiply_add(x, y, total) for (x, y), total in zip(products, sums, strict=True)]


@instruction(types.none)
def add_products(write, vectors, weights, query, a, row, column, like):
    """For as many rows, from `row` on, as `like` has members: add to `a` from `column` on the sum over the tuple
    `vectors` of vectors[g] times the number weights[row, query + g]."""
    for c in range(len(like)):
        place = write.plus(row, c)
        total = a.load(place, column)
        for g, x in enumerate(vectors):
            weight = weights.element(place, write.plus(query, g))
            total = write.multiply_add(x, write.splat(weight), total)
        a.store(total, place, column)


@instruction(_lanes)
def absolute(write, x):
    """The magnitude of a number in each lane."""
    magnitude = write.builder.and_(write.builder.bitcast(x, INTS), write.constant(2**31 - 1, INTS))
    return write.builder.bitcast(magnitude, _FLOATS)


@instruction(_lanes)
def if_positive(write, x, y, z):
    """In each lane y where x is positive, and z where it is not."""
    return write.builder.select(write.builder.fcmp_ordered(">", x, write.constant(0.0)), y, z)


@instruction(lambda a, i, j, like: types.UniTuple(_lanes, len(like) * len(like[0])))
def load_tile(write, a, i, j, like):
    """The vectors of as many rows of `a`, from i on, as `like` has members, and of as many in each row, from column j
    on, as such a member has: one row after another, as one tuple."""
    places = (
        (write.plus(i, r), write.plus(j, v * LANES)) for r, row in enumerate(like) for v in range(len(row))
    )
    return [a.load(*place) for place in places]


@instruction(types.none)
def store_tile(write, vectors, a, i, j, like):
    """Write the tuple `vectors` to where `load_tile` would read it."""
    width = len(like[0])
    for n, x in enumerate(vectors):
        a.store(x, write.plus(i, n // width), write.plus(j, n % width * LANES))


@instruction(_first)
def add_rank_one(write, sums, a, i, k, b, j, like):
    """The tuple `sums`, a tile as of `load_tile`, plus the product of a[i:, k] and the vectors of b from (k, j) on."""
    vectors = [b.load(k, write.plus(j, v * LANES)) for v in range(len(like[0]))]
    weights = [write.splat(a.element(write.plus(i, r), k)) for r in range(len(like))]
    products = ((x, y) for x in weights for y in vectors)
    return [write.multiply_add(x, y, total) for (x, y), total in zip(products, sums, strict=True)]


@instruction(_first)
def where(write, vectors, kept, row, column):
    """The tuple `vectors` with 0 in all lanes that are dropped.

    Lane l of member g stays as it is if bit l of the integer kept[row + g, column] is set.
    """
    chosen = []
    for g, x in enumerate(vectors):
        mask = write.builder.bitcast(
            kept.element(write.plus(row, g), column), ir.VectorType(ir.IntType(1), LANES)
        )
        chosen.append(write.builder.select(mask, x, write.constant(0.0)))
    return chosen

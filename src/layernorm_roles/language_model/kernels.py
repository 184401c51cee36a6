"""Compiled CPU kernels of the language models: causal attention of small heads, cross-entropy without logits.

Both are softmaxes over rows of scores, q.k or h.w, and made of the same three loops over a tile of keys (entries):
`_exponentials` computes exp(score - shift) for `TOGETHER` queries (tokens), `_add_means` adds the values weighted by
them, `_add_outer` adds their outer products to the keys' gradients. Matrices have one feature a row and one key or
token a column, so that the loops run along rows, `LANES` columns at a time.

LANES columns are one vector of LLVM, the numba type `Lanes`: the functions of the section "Vectors" are operations on
it. LLVM does not have to find out what can be vectorised, splits vectors where a processor's are shorter, and prefers
no shorter ones on the processors on which it would by itself; sums have an order that no processor changes.

numba compiles what is here. It notices an edit of this file and compiles again, but would miss an edit of another
file whose code it had put inline: therefore all stands in one module. Arrays are of float32 unless a docstring says
otherwise, and matrices are filled up with zeros as `columns` does it.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt16
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from torch import Tensor

from layernorm_roles.compiling import cached_njit, njit

COMPILING = "the language models' kernels", 8
"""What `compiling.compilation_notice` says about this module: its name, and about how many seconds numba takes."""

SAFE_SHIFT = 40.0
"""Largest bound on |score| that serves as a softmax's shift: exp(-2 * 40) is still a normal number in float32."""
LANES = 16
"""Columns that are computed at once: numbers of float32 in the widest vectors of a CPU, those of AVX-512."""
TOGETHER = 8
"""Queries, or tokens, that share one pass over a tile of keys; a divisor of LANES."""
WORDS = 2
"""Vectors of 32-bit words that Threefry gives at a time, each of them two random numbers of 16 bits a lane."""
TOKENS = 64
"""Tokens whose hidden units of a feed-forward part are computed together, so that they stay in the cache."""
BLOCKS = (2, 4, 8)
"""Numbers of features that kernels are compiled for; more features are taken as several blocks of the largest."""

jit = cached_njit(error_model="numpy", nogil=True)
"""The compiler's options for a kernel; other Python threads go on while it runs."""

inlined = njit(forceinline=True, error_model="numpy")
"""The compiler's options for a function that a kernel calls. Without forceinline a process that compiles would run
another copy of the function, with other roundings, than one that loads the kernel from numba's cache."""


def columns(t: Float[Tensor, "*more n d"]) -> Float[Tensor, "*more rows columns"]:
    """The array that the kernels take: a position a column, filled up with zeros.

    Rows fill whole blocks of features, and `used(n)` columns whole vectors. A row takes an odd number of cache lines:
    in rows of 4,096 bytes equal columns of all rows would compete for one place in the first-level cache.
    """
    *more, n, d = t.shape
    block = features(d)
    out = t.new_zeros(*more, -(-d // block) * block, (used(n) // LANES | 1) * LANES)
    out[..., :d, :n] = t.mT
    return out


def used(n: int) -> int:
    """The columns that the kernels compute for n positions: n rounded up to LANES."""
    return -(-n // LANES) * LANES


def empty_kept(heads: int, n: int) -> UInt16[Tensor, "heads n masks"]:
    """Memory for what `draw_kept` draws, for n queries and keys, a multiple of LANES."""
    return torch.empty(heads, n, -(-n // LANES // (2 * WORDS)) * 2 * WORDS, dtype=torch.uint16)


def features(d: int) -> int:
    """The smallest of BLOCKS that holds d features, or the largest."""
    return next((block for block in BLOCKS if block >= d), BLOCKS[-1])


def unrolled(d: int) -> tuple[int, ...]:
    """The kernels' last argument for d features: a tuple of as many numbers as a block has features.

    The length of a tuple belongs to its type, by which numba compiles the loops over a block without a loop.
    """
    return (0,) * features(d)


# Vectors -------------------------------------------------------------------------------------------------------------


class Lanes(types.Type):
    """numba's type of a vector of LANES numbers of float32, with +, -, * and /."""

    def __init__(self):
        super().__init__(name="Lanes")


_lanes = Lanes()
_FLOATS, _INTS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(32), LANES)
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


class _Code:
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
        return self.builder.shuffle_vector(one, undefined, self.constant(0, _INTS))

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
def _splat(typing, x):
    """A vector of equal numbers x."""

    def code(*call):
        return _Code(*call).splat(call[3][0])

    return _lanes(types.float32), code


EXPONENTIAL = (0.008297646, 0.041915417, 0.16667575, 0.49998894, 0.9999997, 1.0000001)
"""The polynomial, highest power first, of degree 5 whose largest relative error from exp on |r| <= ln(2)/2 is least:
8e-8, little more than a rounding."""


def _exp(write: _Code, x: ir.Value) -> ir.Value:
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
    exponent = builder.shl(builder.bitcast(shifted, _INTS), write.constant(23, _INTS))
    return builder.bitcast(builder.add(builder.bitcast(p, _INTS), exponent), _FLOATS)


@intrinsic
def exp(typing, x):
    """`_exp` of a vector, or of each member of a tuple of vectors."""

    def code(*call):
        write = _Code(*call)
        if isinstance(x, Lanes):
            return _exp(write, call[3][0])
        return write.tuple([_exp(write, member) for member in write.members(0)])

    return x(x), code


def _rounded(x: float) -> float:
    """x rounded to float32."""
    return float(np.float32(x))


@intrinsic
def _first(typing, vectors, count, more, other):
    """The tuple of the first `count` lanes of vectors[0], of `more` more lanes of each vector after it, and of the
    number `other` in all lanes after them."""

    def code(*call):
        write, builder, (_, count, more, other) = _Code(*call), call[1], call[3]
        places, words = ir.Constant(_INTS, list(range(LANES))), ir.IntType(32)
        chosen = []
        for x in write.members(0):
            kept = builder.icmp_signed("<", places, write.splat(builder.trunc(count, words), _INTS))
            chosen.append(builder.select(kept, x, write.splat(other)))
            count = builder.add(count, more)
        return write.tuple(chosen)

    return vectors(vectors, types.intp, types.intp, types.float32), code


@intrinsic
def _splats(typing, numbers, i, like):
    """The numbers of an array from i on, each as a vector: as many as `like` has members."""

    def code(*call):
        write, builder, (array, i, _) = _Code(*call), call[1], call[3]
        data = write.context.make_array(numbers)(write.context, builder, array).data
        places = (builder.add(i, i.type(n)) for n in range(len(like)))
        return write.tuple([write.splat(builder.load(builder.gep(data, [place]))) for place in places])

    return _many(like)(numbers, types.intp, like), code


def _member_by_member(combine: Callable[[_Code, ir.Value, ir.Value], ir.Value]) -> Callable:
    """The function that combines two tuples of vectors member by member."""

    @intrinsic
    def function(typing, x, y):
        def code(*call):
            write = _Code(*call)
            return write.tuple(
                [combine(write, a, b) for a, b in zip(write.members(0), write.members(1), strict=True)]
            )

        return x(x, y), code

    return function


_plus = _member_by_member(lambda write, x, y: write.builder.fadd(x, y, flags=_FUSED))
_minus = _member_by_member(lambda write, x, y: write.builder.fsub(x, y, flags=_FUSED))
_larger = _member_by_member(
    lambda write, x, y: write.builder.select(write.builder.fcmp_unordered(">", x, y), x, y)
)
_times = _member_by_member(lambda write, x, y: write.builder.fmul(x, y, flags=_FUSED))


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


_total = _folded(lambda builder, x, y: builder.fadd(x, y))
_largest = _folded(lambda builder, x, y: builder.select(builder.fcmp_unordered(">", x, y), x, y))


@intrinsic
def _load(typing, a, row, column):
    """The vector of `a` that begins at (row, column)."""

    def code(*call):
        write, (_, row, column) = _Code(*call), call[3]
        return write.load(0, row, 0, column)

    return _lanes(a, types.intp, types.intp), code


@intrinsic
def _store(typing, x, a, row, column):
    """Write the vector x to `a`, from (row, column) on."""

    def code(*call):
        write, (x, _, row, column) = _Code(*call), call[3]
        write.store(x, 1, row, 0, column)
        return call[0].get_dummy_value()

    return types.none(_lanes, a, types.intp, types.intp), code


@intrinsic
def _add_dots(typing, sums, a, i, b, row, j, block):
    """The tuple `sums`, to whose member g is added the sum over c of a[row + c, i + g] times the vector of `b` that
    begins at (row + c, j), for as many rows c as `block` has members."""

    def code(*call):
        write, (_, _, i, _, row, j, _) = _Code(*call), call[3]
        totals = write.members(0)
        for c in range(len(block)):
            vector = write.load(3, row, c, j)
            for g in range(len(totals)):
                place = write.pointer(1, row, c, write.builder.add(i, i.type(g)))
                totals[g] = write.multiply_add(write.splat(write.builder.load(place)), vector, totals[g])
        return write.tuple(totals)

    return sums(sums, a, types.intp, b, types.intp, types.intp, block), code


@intrinsic
def _add_means_of(typing, sums, vectors, v, row, j, block):
    """The tuple `sums`, to whose member g B + c is added vectors[g] times the vector of `v` from (row + c, j) on, where
    B is the number of members of `block`."""

    def code(*call):
        write, (_, _, _, row, j, _) = _Code(*call), call[3]
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
def _add_products(typing, vectors, weights, query, a, row, column, like):
    """For as many rows, from `row` on, as `like` has members: add to `a` from `column` on the sum over the tuple
    `vectors` of vectors[g] times the number weights[row, query + g]."""

    def code(*call):
        write, builder, (_, _, query, _, row, column, _) = _Code(*call), call[1], call[3]
        for c in range(len(like)):
            total = write.load(3, row, c, column)
            for g, x in enumerate(write.members(0)):
                weight = builder.load(write.pointer(1, row, c, builder.add(query, query.type(g))))
                total = write.multiply_add(x, write.splat(weight), total)
            write.store(total, 3, row, c, column)
        return call[0].get_dummy_value()

    return types.none(vectors, weights, types.intp, a, types.intp, types.intp, like), code


@intrinsic
def _abs(typing, x):
    """The magnitude of a number in each lane."""

    def code(*call):
        return call[1].bitcast(
            call[1].and_(call[1].bitcast(call[3][0], _INTS), _Code(*call).constant(2**31 - 1, _INTS)), _FLOATS
        )

    return _lanes(_lanes), code


@intrinsic
def _if_positive(typing, x, y, z):
    """In each lane y where x is positive, and z where it is not."""

    def code(*call):
        builder, (x, y, z) = call[1], call[3]
        return builder.select(builder.fcmp_ordered(">", x, _Code(*call).constant(0.0)), y, z)

    return _lanes(_lanes, _lanes, _lanes), code


@intrinsic
def _load_tile(typing, a, i, j, like):
    """The vectors of as many rows of `a`, from i on, as `like` has members, and of as many in each row, from column j
    on, as such a member has: one row after another, as one tuple."""

    def code(*call):
        write, (_, i, j, _) = _Code(*call), call[3]
        rows, width = len(like), len(like[0])
        return write.tuple(
            [write.load(0, i, n // width, write.after(j, n % width)) for n in range(rows * width)]
        )

    return types.UniTuple(_lanes, len(like) * len(like[0]))(a, types.intp, types.intp, like), code


@intrinsic
def _store_tile(typing, vectors, a, i, j, like):
    """Write the tuple `vectors` to where `_load_tile` would read it."""

    def code(*call):
        write, (_, _, i, j, _) = _Code(*call), call[3]
        for n, x in enumerate(write.members(0)):
            write.store(x, 1, i, n // len(like[0]), write.after(j, n % len(like[0])))
        return call[0].get_dummy_value()

    return types.none(vectors, a, types.intp, types.intp, like), code


@intrinsic
def _add_rank_one(typing, sums, a, i, k, b, j, like):
    """The tuple `sums`, a tile as of `_load_tile`, plus the product of a[i:, k] and the vectors of b from (k, j) on."""

    def code(*call):
        write, (_, _, i, k, _, j, _) = _Code(*call), call[3]
        vectors = [write.load(4, k, 0, write.after(j, v)) for v in range(len(like[0]))]
        weights = [write.splat(call[1].load(write.pointer(1, i, r, k))) for r in range(len(like))]
        products = ((x, y) for x in weights for y in vectors)
        tile = zip(products, write.members(0), strict=True)
        return write.tuple([write.multiply_add(x, y, total) for (x, y), total in tile])

    return sums(sums, a, types.intp, types.intp, b, types.intp, like), code


@intrinsic
def _where(typing, vectors, kept, row, column):
    """The tuple `vectors`, of member g those lanes whose bits are set in kept[row + g, column], and 0 in the others."""

    def code(*call):
        write, builder, (_, _, row, column) = _Code(*call), call[1], call[3]
        chosen = []
        for g, x in enumerate(write.members(0)):
            bits = builder.load(write.pointer(1, row, g, column))
            mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), LANES))
            chosen.append(builder.select(mask, x, write.constant(0.0)))
        return write.tuple(chosen)

    return vectors(vectors, kept, types.intp, types.intp), code


# Random masks --------------------------------------------------------------------------------------------------------

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@intrinsic
def _draw(typing, kept, row, column, key, counter, threshold):
    """Draw 2 WORDS numbers of LANES bits into kept[row, column:], each bit set with the chance threshold / 2^16.

    The randomness is Threefry-2x32 with 20 rounds (Salmon et al. 2011): a function of the two words of `key` and of a
    counter of two words, which for lane l are those of `counter`, the first of them plus l.
    """

    def code(*call):
        write, builder, (_, row, column, key, counter, threshold) = _Code(*call), call[1], call[3]
        words = ir.IntType(32)

        def both(pair):
            return [
                write.splat(builder.trunc(x, words), _INTS) for x in cgutils.unpack_tuple(builder, pair, 2)
            ]

        def rotated(x, by):
            left, right = (write.constant(n, _INTS) for n in (by, 32 - by))
            return builder.or_(builder.shl(x, left), builder.lshr(x, right))

        keys = both(key)
        keys.append(builder.xor(builder.xor(*keys), write.constant(0x1BD11BDA, _INTS)))
        x, y = both(counter)
        x = builder.add(x, ir.Constant(_INTS, list(range(LANES))))
        x, y = builder.add(x, keys[0]), builder.add(y, keys[1])
        for group in range(1, 6):
            for by in _ROTATIONS[(group - 1) % 2]:
                x = builder.add(x, y)
                y = builder.xor(rotated(y, by), x)
            x = builder.add(x, keys[group % 3])
            y = builder.add(builder.add(y, keys[(group + 1) % 3]), write.constant(group, _INTS))
        half = write.constant(16, _INTS)
        below = builder.shl(write.splat(builder.trunc(threshold, words), _INTS), half)
        for n, word in enumerate((x, y, builder.shl(x, half), builder.shl(y, half))):
            bits = builder.bitcast(builder.icmp_unsigned("<", word, below), ir.IntType(LANES))
            builder.store(bits, write.pointer(0, row, 0, builder.add(column, column.type(n))))
        return call[0].get_dummy_value()

    integers = types.UniTuple(types.intp, 2)
    return types.none(kept, types.intp, types.intp, integers, integers, types.intp), code


# Loops ---------------------------------------------------------------------------------------------------------------

_ZERO, _ONE, _LEAST = np.float32(0), np.float32(1), np.float32(-np.inf)
_GROUP: Any = (0,) * TOGETHER
_TILE: Any = ((0, 0),) * TOGETHER
_NARROW: Any = ((0,),) * TOGETHER
_ROW: Any = ((0,),)
_PAIR: Any = (0, 0)
_BOTH: Any = ((0,),) * (2 * TOGETHER)


@inlined
def _tile(d):
    """Columns of a tile: `d` rows of them take at most a third of a first-level cache of 48 KB, or 64 columns."""
    return min(512, max(64, 4096 // d // LANES * LANES))


@inlined
def _scores(start, q, i, k, j, block):
    """The tuple of start[g] + q_{i+g} . k_j for the vector of columns that begins at j, g over a group of queries."""
    for c in range(0, len(q), len(block)):
        start = _add_dots(start, q, i, k, c, j, block)
    return start


@inlined
def _exponentials(q, i, k, first, stop, seen, more, start, e, origin, totals, block):
    """Set e[g, j - origin] to exp(start[i + g] + q_{i+g} . k_j) for the columns j from `first` to `stop`.

    The query i sees `seen` columns, each query after it `more` than the one before; beyond them e is 0. All but the
    last vector before `stop` lie within. Their sums are added to the rows of `totals`, by lanes.
    """
    begun, total = _splats(start, i, _GROUP), _load_tile(totals, 0, 0, _NARROW)
    for j in range(first, stop, LANES):
        weights = exp(_scores(begun, q, i, k, j, block))
        if j + LANES == stop:
            weights = _first(weights, seen - j, more, _ZERO)
        total = _plus(total, weights)
        _store_tile(weights, e, 0, j - origin, _NARROW)
    _store_tile(total, totals, 0, 0, _NARROW)


@inlined
def _add_means(e, v, first, stop, origin, sums):
    """Add the sum of e[g, j - origin] v[c, j] for `first` <= j < `stop`, by lanes, to where `_mean` finds it."""
    for c in range(0, len(v), 2):
        total = _load_tile(sums[c // 2], 0, 0, _BOTH)
        for j in range(first, stop, LANES):
            total = _add_means_of(total, _load_tile(e, 0, j - origin, _NARROW), v, c, j, _PAIR)
        _store_tile(total, sums[c // 2], 0, 0, _BOTH)


@inlined
def _mean(sums, g, c):
    """The sum over the lanes of what `_add_means` has added for query g and feature c."""
    return _total(_load(sums[c // 2], 2 * g + c % 2, 0))


@inlined
def _add_outer(e, x, i, first, stop, origin, out, block):
    """Add to out[c, j] the sum over the group of e[g, j - origin] x[c, i + g], for `first` <= j < `stop`."""
    for j in range(first, stop, LANES):
        together = _load_tile(e, 0, j - origin, _NARROW)
        for c in range(0, len(x), len(block)):
            _add_products(together, x, i, out, c, j, block)


@inlined
def _drop(e, kept, i, first, stop):
    """Set e[g, j - first] to 0 where kept[i + g] lacks the bit of column j, for `first` <= j < `stop`."""
    for j in range(first, stop, LANES):
        _store_tile(
            _where(_load_tile(e, 0, j - first, _NARROW), kept, i, j // LANES), e, 0, j - first, _NARROW
        )


@inlined
def _largest_score(q, i, k, seen, block):
    """The largest of q_i . k_j over the first `seen` columns j."""
    best = (_splat(_LEAST),)
    for j in range(0, seen, LANES):
        score = _scores((_splat(_ZERO),), q, i, k, j, block)
        best = _larger(best, _first(score, seen - j, 0, _LEAST))
    return _largest(best[0])


# Kernels -------------------------------------------------------------------------------------------------------------


# Linear layers and feed-forward part


@inlined
def _add_tiles(a, b, out, first, stop, j, like):
    """Add a b to the rows of `out` from `first` to `stop`, in the columns from j on that `like` is wide."""
    for i in range(first, stop, len(like)):
        tile = _load_tile(out, i, j, like)
        for k in range(a.shape[1]):
            tile = _add_rank_one(tile, a, i, k, b, j, like)
        _store_tile(tile, out, i, j, like)


@inlined
def _add_product(a, b, out):
    """Add the matrix product a b to `out`; its rows and those of b are whole vectors."""
    rows, columns = out.shape
    whole, wide = rows // TOGETHER * TOGETHER, columns // (2 * LANES) * (2 * LANES)
    for j in range(0, wide, 2 * LANES):
        _add_tiles(a, b, out, 0, whole, j, _TILE)
    if wide < columns:
        _add_tiles(a, b, out, 0, whole, wide, _NARROW)
    for j in range(0, columns, LANES):
        _add_tiles(a, b, out, whole, rows, j, _ROW)


_SQUARE, _CUBE = np.float32(2 * (2 / np.pi) ** 0.5), np.float32(2 * (2 / np.pi) ** 0.5 * 0.044715)
_ROOT, _DENSITY = np.float32(0.5**0.5), np.float32((2 * np.pi) ** -0.5)
_TAIL = tuple(np.float32(x / 2) for x in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
_NEAR = np.float32(0.3275911)


@inlined
def _gelu(x, exact):
    """GELU of a vector, x Phi(x), and its derivative; unless `exact`, by GPT-2's form of Phi, a hyperbolic tangent.

    The exact Phi comes from the error function by formula 7.1.26 of Abramowitz and Stegun, true to 1.5e-7.
    """
    one = _splat(np.float32(1))
    if exact:
        density = exp(_splat(np.float32(-0.5)) * x * x)
        t = one / (one + _splat(_NEAR * _ROOT) * _abs(x))
        tail = _splat(_TAIL[0])
        for c in range(1, 5):
            tail = tail * t + _splat(_TAIL[c])
        tail = tail * t * density
        phi = _if_positive(x, one - tail, tail)
        return x * phi, phi + _splat(_DENSITY) * x * density
    square = x * x
    y = x * (_splat(_SQUARE) + _splat(_CUBE) * square)
    e = exp(_splat(_ZERO) - _abs(y))
    larger = one / (one + e)
    smaller = e * larger
    phi = _if_positive(y, larger, smaller)
    return x * phi, phi + x * larger * smaller * (_splat(_SQUARE) + _splat(np.float32(3) * _CUBE) * square)


@jit
def feed_forward_forward(exact, x, hidden, slope, out, w_in, b_in, w_out, b_out):
    """Feed-forward part: writes hidden = GELU(x w_in + b_in), the derivative of GELU, and out = hidden w_out + b_out.

    `exact` is that of `_gelu`. The shapes are x and out (tokens, d), hidden and slope (tokens, d_ff), w_in (d, d_ff),
    b_in (d_ff,), w_out (d_ff, d), b_out (d,). All but x have rows of whole vectors.
    """
    for first in range(0, len(x), TOKENS):
        rows = slice(first, first + TOKENS)
        hidden[rows], out[rows] = b_in, b_out
        _add_product(x[rows], w_in, hidden[rows])
        for i in range(first, min(first + TOKENS, len(x))):
            for j in range(0, hidden.shape[1], LANES):
                y, slope_y = _gelu(_load(hidden, i, j), exact)
                _store(y, hidden, i, j)
                _store(slope_y, slope, i, j)
        _add_product(hidden[rows], w_out, out[rows])


@jit
def feed_forward_backward(
    x, hidden, slope, out_grad, x_grad, w_in, w_out, w_in_grad, b_in_grad, w_out_grad, b_out_grad
):
    """Feed-forward part's gradients: adds to x_grad, w_in_grad, b_in_grad, w_out_grad and b_out_grad.

    The other arguments are what `feed_forward_forward` has taken and written, and the gradient of its output, but w_in
    is (d_ff, d) here, and w_out and the gradient w_out_grad are (d, d_ff). All but x and out_grad have rows of whole
    vectors.
    """
    memory = np.empty((TOKENS, hidden.shape[1]), np.float32)
    for first in range(0, len(x), TOKENS):
        rows = slice(first, min(first + TOKENS, len(x)))
        grad = memory[: rows.stop - first]
        grad[:] = 0
        _add_product(out_grad[rows], w_out, grad)
        for i in range(len(grad)):
            for j in range(0, grad.shape[1], LANES):
                _store(_load(grad, i, j) * _load(slope, first + i, j), grad, i, j)
            b_in_grad += grad[i]
            b_out_grad += out_grad[first + i]
        _add_product(grad, w_in, x_grad[rows])
        _add_product(x[rows].T, grad, w_in_grad)
        _add_product(out_grad[rows].T, hidden[rows], w_out_grad)


@jit
def linear_forward(x, out, weight, bias):
    """Linear layer: writes x weight + bias to `out`; x (tokens, d_in), weight (d_in, d_out). Rows are whole vectors."""
    out[:] = bias
    _add_product(x, weight, out)


@jit
def linear_backward(x, out_grad, x_grad, weight, weight_grad, bias_grad):
    """Linear layer's gradients: adds to x_grad, weight_grad and bias_grad; weight has the shape (d_out, d_in)."""
    for first in range(0, len(x), TOKENS):
        rows = slice(first, min(first + TOKENS, len(x)))
        _add_product(out_grad[rows], weight, x_grad[rows])
        _add_product(out_grad[rows].T, x[rows], weight_grad)
        for i in range(first, rows.stop):
            bias_grad += out_grad[i]


@jit
def draw_kept(kept, first, key, threshold):
    """Draw which attention weights dropout keeps: bit l of kept[h, i, m] is that of query i and key m LANES + l.

    A bit is set with the chance threshold / 2^16. It depends on the two integers of `key`, on h + `first`, the number
    of the head, and on the places of query and key alone. `kept` has the shape (heads, n, n / LANES, filled up to a
    multiple of 2 WORDS), and is left as it is for keys that come after the query.
    """
    heads, n, _ = kept.shape
    for h in range(heads):
        kept_h = kept[h]
        for i in range(n):
            for m in range(0, i // LANES + 1, 2 * WORDS):
                counter = (m // (2 * WORDS) * LANES, (first + h) * n + i)
                _draw(kept_h, i, m, key, counter, threshold)


@inlined
def _columns(rows, column, d, n, scale, block):
    """`scale` times d columns of `rows`, from `column` on, turned into what `columns` makes of them for n positions."""
    out = np.zeros(((d + len(block) - 1) // len(block) * len(block), (n // LANES | 1) * LANES), np.float32)
    for i in range(len(rows)):
        for c in range(d):
            out[c, i] = rows[i, column + c] * scale
    return out


@inlined
def _rows(columns, d, scale, out, column):
    """Set out[i, column + c] to `scale` times columns[c, i], for c < d."""
    for i in range(len(out)):
        for c in range(d):
            out[i, column + c] = columns[c, i] * scale


@inlined
def _set_shifts(q, k, shift, block):
    """Set shift[i] to at least every score of the query i, which is also close to the largest if that is large.

    At first it is the length of q_i times that of the longest of k_0 to k_i.
    """
    longest = _ZERO
    for i in range(len(shift)):
        of_q, of_k = _ZERO, _ZERO
        for c in range(len(q)):
            of_q += q[c, i] * q[c, i]
            of_k += k[c, i] * k[c, i]
        longest = max(longest, of_k)
        shift[i] = np.sqrt(of_q * longest)
        if shift[i] > SAFE_SHIFT:
            shift[i] = _largest_score(q, i, k, i + 1, block)


@jit
def attention_forward(qkv, kept, scale, heads, out, log_total, block):
    """Causal attention: writes each query's weighted mean of the values to `out`, and its log-sum-exp to `log_total`.

    qkv (batch, n, 3 d_model) has queries, keys and values, all of them head by head, as out (batch, n, d_model) has
    its heads. log_total (batch heads, used(n)) has a row a head; only those from heads[0] to heads[1] are computed.
    Weights whose bits are not set in `kept`, which `draw_kept` has drawn, count as 0, the others `scale` times; with
    None all count. `block` is `unrolled(d_head)`.
    """
    n, d_model = log_total.shape[1], out.shape[2]
    d = d_model * len(qkv) // len(log_total)
    for h in range(heads[0], heads[1]):
        rows, out_rows, column = qkv[h // (d_model // d)], out[h // (d_model // d)], h % (d_model // d) * d
        q = _columns(rows, column, d, n, np.float32(d**-0.5), block)
        k = _columns(rows, d_model + column, d, n, _ONE, block)
        v = _columns(rows, 2 * d_model + column, d, n, scale, block)
        means, tile = np.empty_like(v), _tile(len(v))
        e, totals = np.empty((TOGETHER, tile + LANES), np.float32), np.empty((TOGETHER, LANES), np.float32)
        sums, shift = np.empty((len(v) // 2, 2 * TOGETHER, LANES), np.float32), np.empty(n, np.float32)
        _set_shifts(q, k, shift, block)
        start = -shift
        for i in range(0, n, TOGETHER):
            end = (i // LANES + 1) * LANES
            totals[:] = 0
            sums[:] = 0
            for first in range(0, end, tile):
                stop = min(first + tile, end)
                _exponentials(q, i, k, first, stop, i + 1, 1, start, e, first, totals, block)
                if kept is not None:
                    _drop(e, kept[h], i, first, stop)
                _add_means(e, v, first, stop, first, sums)
            for g in range(TOGETHER):
                total = _total(_load(totals, g, 0))
                log_total[h, i + g] = np.log(total) + shift[i + g]
                for c in range(d):
                    means[c, i + g] = _mean(sums, g, c) / total
        _rows(means, d, _ONE, out_rows, column)


@jit
def attention_backward(qkv, kept, scale, heads, out, log_total, out_grad, qkv_grad, block):
    """Causal attention's gradient: writes qkv_grad, of the shape of qkv, for the heads from heads[0] to heads[1].

    The other arguments are those of `attention_forward` and the gradient of its output. With the weights p of one
    query, the gradient of its scores is p (v.out_grad - out.out_grad), where v.out_grad counts as 0 for weights that
    are not kept.
    """
    n, d_model = log_total.shape[1], out.shape[2]
    d = d_model * len(qkv) // len(log_total)
    for h in range(heads[0], heads[1]):
        batch, column = h // (d_model // d), h % (d_model // d) * d
        q = _columns(qkv[batch], column, d, n, np.float32(d**-0.5), block)
        k = _columns(qkv[batch], d_model + column, d, n, _ONE, block)
        v = _columns(qkv[batch], 2 * d_model + column, d, n, scale, block)
        grad = _columns(out_grad[batch], column, d, n, _ONE, block)
        q_grad, k_grad, v_grad = np.empty_like(q), np.zeros_like(q), np.zeros_like(q)
        tile = _tile(len(q))
        p = np.empty((TOGETHER, tile + LANES), np.float32)
        ds, totals = np.empty_like(p), np.zeros((TOGETHER, LANES), np.float32)
        sums = np.empty((len(q) // 2, 2 * TOGETHER, LANES), np.float32)
        start, mean = -log_total[h], np.zeros(n, np.float32)
        nothing = _splats(mean, 0, _GROUP)
        for i in range(qkv.shape[1]):
            for c in range(column, column + d):
                mean[i] += out[batch, i, c] * out_grad[batch, i, c]
        for i in range(0, n, TOGETHER):
            end = (i // LANES + 1) * LANES
            sums[:] = 0
            centre = _splats(mean, i, _GROUP)
            for first in range(0, end, tile):
                stop = min(first + tile, end)
                _exponentials(q, i, k, first, stop, i + 1, 1, start, p, first, totals, block)
                for j in range(first, stop, LANES):
                    products = _scores(nothing, grad, i, v, j, block)
                    if kept is not None:
                        products = _where(products, kept[h], i, j // LANES)
                    of_p = _load_tile(p, 0, j - first, _NARROW)
                    _store_tile(_times(_minus(products, centre), of_p), ds, 0, j - first, _NARROW)
                if kept is not None:
                    _drop(p, kept[h], i, first, stop)
                _add_means(ds, k, first, stop, first, sums)
                _add_outer(ds, q, i, first, stop, first, k_grad, block)
                _add_outer(p, grad, i, first, stop, first, v_grad, block)
            for g in range(TOGETHER):
                for c in range(d):
                    q_grad[c, i + g] = _mean(sums, g, c)
        _rows(q_grad, d, np.float32(d**-0.5), qkv_grad[batch], column)
        _rows(k_grad, d, _ONE, qkv_grad[batch], d_model + column)
        _rows(v_grad, d, scale, qkv_grad[batch], 2 * d_model + column)


@jit
def cross_entropy_sweep(h, w, targets, h_grad, w_grad, bound, entries, block):
    """Cross-entropy: returns the sum over the tokens of their loss, sets h_grad to its gradient and adds to w_grad.

    h and h_grad have the shape (d, tokens), w and w_grad (d, entries), as `columns` makes them; targets (tokens,) are
    integers; bound (used(tokens),) is at least the magnitude of every logit of the token. `block` is `unrolled(d)`.

    The exponentials of a group of tokens over all entries stay, for the weight's gradient needs their sum first.
    """
    d, tokens = len(h), len(bound)
    tile, end = _tile(d), (entries + LANES - 1) // LANES * LANES
    e = np.empty((TOGETHER, w.shape[1]), np.float32)
    totals = np.empty((TOGETHER, LANES), np.float32)
    sums = np.empty((d // 2, 2 * TOGETHER, LANES), np.float32)
    start, per_total = np.empty(tokens, np.float32), np.zeros_like(h)
    loss = 0.0
    for i in range(tokens):
        start[i] = -bound[i]
        if bound[i] > SAFE_SHIFT:
            start[i] = -_largest_score(h, i, w, entries, block)
    for i in range(0, tokens, TOGETHER):
        totals[:] = 0
        sums[:] = 0
        for first in range(0, end, tile):
            stop = min(first + tile, end)
            _exponentials(h, i, w, first, stop, entries, 0, start, e, 0, totals, block)
            _add_means(e, w, first, stop, 0, sums)
        for t in range(i, min(i + TOGETHER, len(targets))):
            g, target, wanted = t - i, targets[t], np.float64(0)
            total = _total(_load(totals, g, 0))
            for c in range(d):
                wanted += np.float64(h[c, t]) * np.float64(w[c, target])
                h_grad[c, t] = _mean(sums, g, c) / total - w[c, target]
                per_total[c, t] = h[c, t] / total
            loss += np.log(np.float64(total)) - start[t] - wanted
        _add_outer(e, per_total, i, 0, end, 0, w_grad, block)
    for t in range(len(targets)):
        for c in range(d):
            w_grad[c, targets[t]] -= h[c, t]
    return loss

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
    """numba's type of a vector of LANES numbers of float32, with +, - and *."""

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


for _operation, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _register(_operation, _instruction)


class _Code:
    """Writes LLVM's instructions for one call of an intrinsic. Arrays are matrices in C order."""

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
        return cgutils.get_item_pointer2(self.context, self.builder, struct.data, shape, strides, "C", place)

    def vector(self, array: int, row: ir.Value, offset: int, column: ir.Value) -> ir.Value:
        """Where argument number `array` has the vector that begins at (row + offset, column)."""
        return self.builder.bitcast(self.pointer(array, row, offset, column), _FLOATS.as_pointer())

    def load(self, array: int, row: ir.Value, offset: int, column: ir.Value) -> ir.Value:
        """The vector of argument number `array` that begins at (row + offset, column)."""
        return self.builder.load(self.vector(array, row, offset, column), align=4)

    def store(self, x: ir.Value, array: int, row: ir.Value, offset: int, column: ir.Value) -> None:
        """Write vector x into argument number `array`, from (row + offset, column) on."""
        self.builder.store(x, self.vector(array, row, offset, column), align=4)

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


@intrinsic
def exp(typing, x):
    """exp(x) of a vector for x <= 0, to 3 units in the last place; for x below -87, exp(-87) = 2e-38; NaN stays NaN.

    The result is 2^k times `EXPONENTIAL` in r = x - k ln(2), where k is x / ln(2) rounded. Adding 1.5 * 2^23 rounds,
    and leaves k in the last bits of the sum, from where a shift by 23 takes it to a float's exponent.
    """

    def code(*call):
        write, builder, x = _Code(*call), call[1], call[3][0]
        lowest, rounder = write.constant(-87.0), write.constant(1.5 * 2.0**23)
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

    return _lanes(_lanes), code


def _rounded(x: float) -> float:
    """x rounded to float32."""
    return float(np.float32(x))


@intrinsic
def _maximum(typing, x, y):
    """The larger of two numbers in each lane."""

    def code(*call):
        return call[1].select(call[1].fcmp_unordered(">", *call[3]), *call[3])

    return _lanes(_lanes, _lanes), code


@intrinsic
def _first(typing, x, count, other):
    """The first `count` lanes of x; the number `other` in those after them."""

    def code(*call):
        write, builder, (x, count, other) = _Code(*call), call[1], call[3]
        count = write.splat(builder.trunc(count, ir.IntType(32)), _INTS)
        kept = builder.icmp_signed("<", ir.Constant(_INTS, list(range(LANES))), count)
        return builder.select(kept, x, write.splat(other))

    return _lanes(_lanes, types.intp, types.float32), code


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
def _load_rows(typing, a, row, column, like):
    """The vectors of `a` that begin at `column` of as many rows, from `row` on, as `like` has members."""

    def code(*call):
        write, (_, row, column, _) = _Code(*call), call[3]
        return write.tuple([write.load(0, row, c, column) for c in range(len(like))])

    return _many(like)(a, types.intp, types.intp, like), code


@intrinsic
def _store_rows(typing, vectors, a, row, column):
    """Write the tuple `vectors` to where `_load_rows` would read it."""

    def code(*call):
        write, (_, _, row, column) = _Code(*call), call[3]
        for c, x in enumerate(write.members(0)):
            write.store(x, 1, row, c, column)
        return call[0].get_dummy_value()

    return types.none(vectors, a, types.intp, types.intp), code


@intrinsic
def _splats(typing, a, row, column, like):
    """The numbers of `a` in `column`, each as a vector, from as many rows, from `row` on, as `like` has members."""

    def code(*call):
        write, builder, (_, row, column, _) = _Code(*call), call[1], call[3]
        return write.tuple(
            [write.splat(builder.load(write.pointer(0, row, c, column))) for c in range(len(like))]
        )

    return _many(like)(a, types.intp, types.intp, like), code


@intrinsic
def _dot(typing, start, splats, a, row, column):
    """start + the sum over c of splats[c] times the vector of `a` that begins at (row + c, column)."""

    def code(*call):
        write, (total, _, _, row, column) = _Code(*call), call[3]
        for c, x in enumerate(write.members(1)):
            total = write.multiply_add(x, write.load(2, row, c, column), total)
        return total

    return _lanes(_lanes, splats, a, types.intp, types.intp), code


@intrinsic
def _added(typing, sums, x, a, row, column):
    """The tuple `sums`, to whose member c is added x times the vector of `a` that begins at (row + c, column)."""

    def code(*call):
        write, (_, x, _, row, column) = _Code(*call), call[3]
        return write.tuple(
            [
                write.multiply_add(x, write.load(2, row, c, column), total)
                for c, total in enumerate(write.members(0))
            ]
        )

    return sums(sums, _lanes, a, types.intp, types.intp), code


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
def _where(typing, x, kept, row, column):
    """x in the lanes whose bits are set in kept[row, column], a number of LANES bits; 0 in the others."""

    def code(*call):
        write, builder, (x, _, row, column) = _Code(*call), call[1], call[3]
        bits = builder.load(write.pointer(1, row, 0, column))
        chosen = builder.bitcast(bits, ir.VectorType(ir.IntType(1), LANES))
        return builder.select(chosen, x, write.constant(0.0))

    return _lanes(_lanes, kept, types.intp, types.intp), code


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

_ZERO, _LEAST = np.float32(0), np.float32(-np.inf)
_GROUP: Any = (0,) * TOGETHER


@inlined
def _tile(d):
    """Columns of a tile: `d` rows of them take at most a third of a first-level cache of 48 KB, or 64 columns."""
    return min(512, max(64, 4096 // d // LANES * LANES))


@inlined
def _start(q, i, k, first, stop, start, e, origin, block):
    """Scores but for the last block of features: set e[g, j - origin] to start[i + g] + q_{i+g} . k_j.

    The columns j go from `first` to `stop`, g over the group of queries that begins at i.
    """
    last = len(q) - len(block)
    for g in range(TOGETHER):
        total = _splat(start[i + g])
        for j in range(first, stop, LANES):
            _store(total, e, g, j - origin)
    for c in range(0, last, len(block)):
        for g in range(0, TOGETHER, 2):
            x, y = _splats(q, c, i + g, block), _splats(q, c, i + g + 1, block)
            for j in range(first, stop, LANES):
                _store(_dot(_load(e, g, j - origin), x, k, c, j), e, g, j - origin)
                _store(_dot(_load(e, g + 1, j - origin), y, k, c, j), e, g + 1, j - origin)


@inlined
def _exponentials(q, i, k, first, stop, seen, more, start, e, origin, totals, block):
    """Set e[g, j - origin] to exp(start[i + g] + q_{i+g} . k_j) for the columns j from `first` to `stop`.

    The query i sees `seen` columns, each query after it `more` than the one before; beyond them e is 0. All but the
    last vector before `stop` lie within. Their sums are added to the rows of `totals`, by lanes.
    """
    last = len(q) - len(block)
    if last:
        _start(q, i, k, first, stop, start, e, origin, block)
    for g in range(0, TOGETHER, 2):
        x, y = _splats(q, last, i + g, block), _splats(q, last, i + g + 1, block)
        from_x, from_y = _splat(start[i + g]), _splat(start[i + g + 1])
        total_x, total_y = _load(totals, g, 0), _load(totals, g + 1, 0)
        for j in range(first, stop, LANES):
            if last:
                from_x, from_y = _load(e, g, j - origin), _load(e, g + 1, j - origin)
            exp_x, exp_y = exp(_dot(from_x, x, k, last, j)), exp(_dot(from_y, y, k, last, j))
            if j + LANES == stop:
                exp_x = _first(exp_x, seen + g * more - j, _ZERO)
                exp_y = _first(exp_y, seen + (g + 1) * more - j, _ZERO)
            total_x, total_y = total_x + exp_x, total_y + exp_y
            _store(exp_x, e, g, j - origin)
            _store(exp_y, e, g + 1, j - origin)
        _store(total_x, totals, g, 0)
        _store(total_y, totals, g + 1, 0)


@inlined
def _add_means(e, v, first, stop, origin, sums, block):
    """Add to the row g d + c of `sums` the sum of e[g, j - origin] v[c, j] for `first` <= j < `stop`, by lanes."""
    d = len(v)
    for g in range(0, TOGETHER, 2):
        for c in range(0, d, len(block)):
            x, y = _load_rows(sums, g * d + c, 0, block), _load_rows(sums, (g + 1) * d + c, 0, block)
            for j in range(first, stop, LANES):
                x = _added(x, _load(e, g, j - origin), v, c, j)
                y = _added(y, _load(e, g + 1, j - origin), v, c, j)
            _store_rows(x, sums, g * d + c, 0)
            _store_rows(y, sums, (g + 1) * d + c, 0)


@inlined
def _add_outer(e, x, i, first, stop, origin, out, block):
    """Add to out[c, j] the sum over the group of e[g, j - origin] x[c, i + g], for `first` <= j < `stop`."""
    for j in range(first, stop, LANES):
        together = _load_rows(e, 0, j - origin, _GROUP)
        for c in range(0, len(x), len(block)):
            _add_products(together, x, i, out, c, j, block)


@inlined
def _drop(e, kept, i, first, stop):
    """Set e[g, j - first] to 0 where kept[i + g] lacks the bit of column j, for `first` <= j < `stop`."""
    for g in range(TOGETHER):
        for j in range(first, stop, LANES):
            _store(_where(_load(e, g, j - first), kept, i + g, j // LANES), e, g, j - first)


@inlined
def _largest_score(q, i, k, seen, block):
    """The largest of q_i . k_j over the first `seen` columns j."""
    best = _splat(_LEAST)
    for j in range(0, seen, LANES):
        total = _splat(_ZERO)
        for c in range(0, len(q), len(block)):
            total = _dot(total, _splats(q, c, i, block), k, c, j)
        best = _maximum(_first(total, seen - j, _LEAST), best)
    return _largest(best)


# Kernels -------------------------------------------------------------------------------------------------------------


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


@jit
def attention_forward(q, k, v, bound, kept, out, log_total, block):
    """Causal attention: writes each query's weighted mean of the values to `out`, and its log-sum-exp to `log_total`.

    q (already divided by sqrt(d_head)), k, v and out have the shape (heads, d_head, n), bound and log_total (heads,
    used(n)); bound is at least every score of the query. Weights whose bits are not set in `kept`, which `draw_kept`
    has drawn, count as 0; with None all count. `block` is `unrolled(d_head)`, and matrices are as `columns` makes them.
    """
    heads, d, _ = q.shape
    tile, n = _tile(d), bound.shape[1]
    e = np.empty((TOGETHER, tile + LANES), np.float32)
    totals, sums = np.empty((TOGETHER, LANES), np.float32), np.empty((TOGETHER * d, LANES), np.float32)
    shift, start = np.empty(n, np.float32), np.empty(n, np.float32)
    for h in range(heads):
        q_h, k_h, v_h = q[h], k[h], v[h]
        for i in range(n):
            shift[i] = bound[h, i]
            if shift[i] > SAFE_SHIFT:
                shift[i] = _largest_score(q_h, i, k_h, i + 1, block)
            start[i] = -shift[i]
        for i in range(0, n, TOGETHER):
            end = (i // LANES + 1) * LANES
            totals[:] = 0
            sums[:] = 0
            for first in range(0, end, tile):
                stop = min(first + tile, end)
                _exponentials(q_h, i, k_h, first, stop, i + 1, 1, start, e, first, totals, block)
                if kept is not None:
                    _drop(e, kept[h], i, first, stop)
                _add_means(e, v_h, first, stop, first, sums, block)
            for g in range(TOGETHER):
                total = _total(_load(totals, g, 0))
                log_total[h, i + g] = np.log(total) + shift[i + g]
                for c in range(d):
                    out[h, c, i + g] = _total(_load(sums, g * d + c, 0)) / total


@jit
def attention_backward(q, k, v, kept, out, log_total, out_grad, q_grad, k_grad, v_grad, block):
    """Causal attention's gradients: sets q_grad, and adds to k_grad and v_grad, all of the shape (heads, d_head, n).

    The other arguments are those of `attention_forward` and the gradient of its output. With the weights p of one
    query, the gradient of its scores is p (v.out_grad - out.out_grad), where v.out_grad counts as 0 for weights that
    are not kept.
    """
    heads, d, _ = q.shape
    tile, n, last = _tile(d), log_total.shape[1], d - len(block)
    p = np.empty((TOGETHER, tile + LANES), np.float32)
    ds = np.empty_like(p)
    totals, sums = np.zeros((TOGETHER, LANES), np.float32), np.empty((TOGETHER * d, LANES), np.float32)
    start, zero, mean = np.empty(n, np.float32), np.zeros(n, np.float32), np.empty(n, np.float32)
    for h in range(heads):
        q_h, k_h, v_h, out_grad_h, k_grad_h, v_grad_h = q[h], k[h], v[h], out_grad[h], k_grad[h], v_grad[h]
        for i in range(n):
            start[i] = -log_total[h, i]
            mean[i] = 0
            for c in range(d):
                mean[i] += out[h, c, i] * out_grad[h, c, i]
        for i in range(0, n, TOGETHER):
            end = (i // LANES + 1) * LANES
            sums[:] = 0
            for first in range(0, end, tile):
                stop = min(first + tile, end)
                _exponentials(q_h, i, k_h, first, stop, i + 1, 1, start, p, first, totals, block)
                if last:
                    _start(out_grad_h, i, v_h, first, stop, zero, ds, first, block)
                for g in range(TOGETHER):
                    x, begun, centre = (
                        _splats(out_grad_h, last, i + g, block),
                        _splat(_ZERO),
                        _splat(mean[i + g]),
                    )
                    for j in range(first, stop, LANES):
                        if last:
                            begun = _load(ds, g, j - first)
                        products = _dot(begun, x, v_h, last, j)
                        if kept is not None:
                            products = _where(products, kept[h], i + g, j // LANES)
                        _store((products - centre) * _load(p, g, j - first), ds, g, j - first)
                if kept is not None:
                    _drop(p, kept[h], i, first, stop)
                _add_means(ds, k_h, first, stop, first, sums, block)
                _add_outer(ds, q_h, i, first, stop, first, k_grad_h, block)
                _add_outer(p, out_grad_h, i, first, stop, first, v_grad_h, block)
            for g in range(TOGETHER):
                for c in range(d):
                    q_grad[h, c, i + g] = _total(_load(sums, g * d + c, 0))


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
    totals, sums = np.empty((TOGETHER, LANES), np.float32), np.empty((TOGETHER * d, LANES), np.float32)
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
            _add_means(e, w, first, stop, 0, sums, block)
        for t in range(i, min(i + TOGETHER, len(targets))):
            g, target, wanted = t - i, targets[t], np.float64(0)
            total = _total(_load(totals, g, 0))
            for c in range(d):
                wanted += np.float64(h[c, t]) * np.float64(w[c, target])
                h_grad[c, t] = _total(_load(sums, g * d + c, 0)) / total - w[c, target]
                per_total[c, t] = h[c, t] / total
            loss += np.log(np.float64(total)) - start[t] - wanted
        _add_outer(e, per_total, i, 0, end, 0, w_grad, block)
    for t in range(len(targets)):
        for c in range(d):
            w_grad[c, targets[t]] -= h[c, t]
    return loss

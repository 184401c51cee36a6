"""Matrix products of the majority task's CPU kernel, by tiles, on arrays with a column for each of `BLOCK` pairs."""

from layernorm_roles.majority.kernel.arrays import BLOCK, COLUMNS, ROWS, inlined


@inlined
def _quad(weight, i, k):
    """The four weights of row `i` from column `k` on."""
    return weight[i, k], weight[i, k + 1], weight[i, k + 2], weight[i, k + 3]


@inlined
def _dot(quad, x, k, p):
    """The inner product of four weights with the four numbers of `x` from row `k` on, for pair (column) `p`."""
    return quad[0] * x[k, p] + quad[1] * x[k + 1, p] + quad[2] * x[k + 2, p] + quad[3] * x[k + 3, p]


@inlined
def affine(weight, bias, x, out):
    """Write weight @ x + bias to `out` (rows, 256), with `weight` (rows, columns) and `x` (columns, 256)."""
    rows, columns = weight.shape
    for i in range(0, rows, ROWS):
        bias0, bias1 = bias[i], bias[i + 1]
        quad0, quad1 = _quad(weight, i, 0), _quad(weight, i + 1, 0)
        for p in range(BLOCK):
            out[i, p] = bias0 + _dot(quad0, x, 0, p)
            out[i + 1, p] = bias1 + _dot(quad1, x, 0, p)
        for k in range(COLUMNS, columns, COLUMNS):
            quad0, quad1 = _quad(weight, i, k), _quad(weight, i + 1, k)
            for p in range(BLOCK):
                out[i, p] += _dot(quad0, x, k, p)
                out[i + 1, p] += _dot(quad1, x, k, p)


@inlined
def _plus(quad, y, x, k, p):
    """The four numbers `quad`, plus `y` times the four numbers of `x` from row `k` on, for pair (column) `p`."""
    a, b, c, d = quad
    return a + y * x[k, p], b + y * x[k + 1, p], c + y * x[k + 2, p], d + y * x[k + 3, p]


@inlined
def add_products(y, x, total):
    """Add the matrix product y @ x.T to `total` (m, n), with `y` (m, 256) and `x` (n, 256)."""
    rows, columns = total.shape
    zero = x.dtype.type(0)
    for i in range(0, rows, ROWS):
        for k in range(0, columns, COLUMNS):
            quad0 = quad1 = zero, zero, zero, zero
            for p in range(BLOCK):
                quad0 = _plus(quad0, y[i, p], x, k, p)
                quad1 = _plus(quad1, y[i + 1, p], x, k, p)
            for j in range(COLUMNS):
                total[i, k + j] += quad0[j]
                total[i + 1, k + j] += quad1[j]


@inlined
def add_sums(y, total):
    """Add to each entry total[i] the sum of row y[i] over its 256 (`BLOCK`) columns."""
    for i in range(len(total)):
        row = y.dtype.type(0)
        for p in range(BLOCK):
            row += y[i, p]
        total[i] += row

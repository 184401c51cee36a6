"""Compiled CPU kernels of the language models: causal attention of small heads, cross-entropy without logits.

numba compiles what is here. It notices an edit of this file and compiles again, but would miss an edit of another
file whose code it had put inline: therefore both kernels and the exponential that they share stand in one module.
All arrays are of float32 unless a docstring says otherwise.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

COMPILING = "the language models' kernels", 5
"""What `compiling.compilation_notice` says about this module: its name, and about how many seconds numba takes."""

SAFE_SHIFT = 40.0
"""Largest bound on |score| that serves as a softmax's shift: exp(-2 * 40) is still a normal number in float32."""

jit = numba.njit(fastmath=True, cache=True)

inlined = numba.njit(fastmath=True, forceinline=True)
"""The compiler's options for a function that a kernel calls. Without forceinline a process that compiles would run
another copy of the function, with other roundings, than one that loads the kernel from numba's cache."""


@intrinsic
def _float32_of_bits(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@inlined
def exp(x):
    """exp(x) in float32 for x <= 0, to 5 units in the last place (3e-7); for x below -87, exp(-87) = 2e-38.

    The result is 2^k times Taylor's polynomial in r = x - k ln(2), |r| <= ln(2)/2. It has no branch and no call, so
    that the compiler computes 16 exponentials at once.
    """
    f = np.float32
    x = max(x, f(-87))
    k = np.floor(x * f(1.4426950408889634) + f(0.5))
    r = x - k * f(0.6931471805599453)
    p = f(1 / 5040)
    for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        p = p * r + f(c)
    return p * _float32_of_bits((np.int32(k) + np.int32(127)) << np.int32(23))


@jit
def attention_forward(q, k, v, bound, out, log_total):
    """Causal attention: writes each query's weighted mean of the values to `out`, and its log-sum-exp to `log_total`.

    q (already divided by sqrt(d_head)), k, v and out have the shape (heads, d_head, n), so that the loops run along
    the keys; bound and log_total have the shape (heads, n), where bound is at least every score of the query.
    """
    heads, d, n = q.shape
    e = np.empty(n, np.float32)
    for h in range(heads):
        for i in range(n):
            _scores(q[h], k[h], i, e)
            shift = bound[h, i]
            if shift > SAFE_SHIFT:
                shift = e[: i + 1].max()
            total = np.float32(0)
            for j in range(i + 1):
                e[j] = exp(e[j] - shift)
                total += e[j]
            for c in range(d):
                row, mean = v[h, c], np.float32(0)
                for j in range(i + 1):
                    mean += e[j] * row[j]
                out[h, c, i] = mean / total
            log_total[h, i] = np.log(total) + shift


@jit
def attention_backward(q, k, v, out, log_total, out_grad, q_grad, k_grad, v_grad):
    """Causal attention's gradients: sets q_grad, and adds to k_grad and v_grad, all of the shape (heads, d_head, n).

    The other arguments are those of `attention_forward` and the gradient of its output. With the weights p of one
    query, the gradient of its scores is p (v.out_grad - out.out_grad).
    """
    heads, d, n = q.shape
    p, ds = np.empty(n, np.float32), np.empty(n, np.float32)
    for h in range(heads):
        for i in range(n):
            _scores(q[h], k[h], i, p)
            ds[: i + 1] = 0
            mean = np.float32(0)
            for c in range(d):
                row, g = v[h, c], out_grad[h, c, i]
                mean += g * out[h, c, i]
                for j in range(i + 1):
                    ds[j] += g * row[j]
            for j in range(i + 1):
                p[j] = exp(p[j] - log_total[h, i])
                ds[j] = p[j] * (ds[j] - mean)
            for c in range(d):
                g, query, sum_q = out_grad[h, c, i], q[h, c, i], np.float32(0)
                row, row_k, row_v = k[h, c], k_grad[h, c], v_grad[h, c]
                for j in range(i + 1):
                    sum_q += ds[j] * row[j]
                    row_k[j] += ds[j] * query
                    row_v[j] += p[j] * g
                q_grad[h, c, i] = sum_q


@inlined
def _scores(q, k, i, e):
    """Set e[j] to the score q_i . k_j of query i with every key j <= i."""
    e[: i + 1] = 0
    for c in range(len(q)):
        query, row = q[c, i], k[c]
        for j in range(i + 1):
            e[j] += query * row[j]


LANES = 8
"""Features that the unrolled loops take at a time: hidden sizes are padded with zeros to a multiple of it."""
TOGETHER = 4
"""Tokens that share one pass over the weight's gradient."""


@jit
def cross_entropy_sweep(h, w, targets, h_grad, w_grad, bound):
    """Cross-entropy: returns the sum over the tokens of their loss, and adds its gradients to h_grad and w_grad.

    h and h_grad have the shape (tokens, d) with d a multiple of LANES, w and w_grad the shape (d, entries); targets
    (tokens,) are integers, and bound (tokens,) is at least the magnitude of every logit of the token.
    """
    tokens, d = h.shape
    entries = w.shape[1]
    e = np.empty((TOGETHER, entries), np.float32)
    factor = np.empty((TOGETHER, d), np.float32)
    loss = 0.0
    for first in range(0, tokens, TOGETHER):
        group = min(TOGETHER, tokens - first)
        e[group:] = 0
        factor[group:] = 0
        for g in range(group):
            loss += _one_token(
                h[first + g], w, targets[first + g], h_grad[first + g], bound[first + g], e[g], factor[g]
            )
        for j in range(d):
            f0, f1, f2, f3 = factor[0, j], factor[1, j], factor[2, j], factor[3, j]
            out, e0, e1, e2, e3 = w_grad[j], e[0], e[1], e[2], e[3]
            for v in range(entries):
                out[v] += e0[v] * f0 + e1[v] * f1 + e2[v] * f2 + e3[v] * f3
    for t in range(tokens):
        for j in range(d):
            w_grad[j, targets[t]] -= h[t, j]
    return loss


@inlined
def _one_token(h, w, target, h_grad, bound, e, factor):
    """One token's loss; sets `e` to the exponentials of its shifted logits, and `factor` to h over their sum."""
    d, entries = w.shape
    e[:] = 0
    for j in range(0, d, LANES):
        h0, h1, h2, h3, h4, h5, h6, h7 = (
            h[j],
            h[j + 1],
            h[j + 2],
            h[j + 3],
            h[j + 4],
            h[j + 5],
            h[j + 6],
            h[j + 7],
        )
        w0, w1, w2, w3, w4, w5, w6, w7 = (
            w[j],
            w[j + 1],
            w[j + 2],
            w[j + 3],
            w[j + 4],
            w[j + 5],
            w[j + 6],
            w[j + 7],
        )
        for v in range(entries):
            e[v] += (w0[v] * h0 + w1[v] * h1 + w2[v] * h2 + w3[v] * h3) + (
                w4[v] * h4 + w5[v] * h5 + w6[v] * h6 + w7[v] * h7
            )
    wanted = e[target]
    shift = np.float32(bound)
    if bound > SAFE_SHIFT:
        shift = e.max()
    total = np.float32(0)
    for v in range(entries):
        e[v] = exp(e[v] - shift)
        total += e[v]
    for j in range(0, d, LANES):
        w0, w1, w2, w3, w4, w5, w6, w7 = (
            w[j],
            w[j + 1],
            w[j + 2],
            w[j + 3],
            w[j + 4],
            w[j + 5],
            w[j + 6],
            w[j + 7],
        )
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0)
        for v in range(entries):
            s0 += e[v] * w0[v]
            s1 += e[v] * w1[v]
            s2 += e[v] * w2[v]
            s3 += e[v] * w3[v]
            s4 += e[v] * w4[v]
            s5 += e[v] * w5[v]
            s6 += e[v] * w6[v]
            s7 += e[v] * w7[v]
        for i, s in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
            h_grad[j + i] += s / total - w[j + i, target]
    for j in range(d):
        factor[j] = h[j] / total
    return np.log(np.float64(total)) + shift - wanted

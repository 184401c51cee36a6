"""What the majority task's CPU kernel computes once a batch, in float64: attention between classes, and its gradients.

For C classes and width d the cost is of order C^2 d, small beside that of the pairs of a sequence and a class.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from layernorm_roles.majority.kernel.arrays import inlined


class ClassAttention(NamedTuple):
    """Queries, keys, values and unnormalised attention of the majority task's classes, with a row for each class."""

    q: Float[np.ndarray, "C d"]
    k: Float[np.ndarray, "C d"]
    v: Float[np.ndarray, "C d"]
    """Values of the classes before attention's output matrix W_o."""
    a: Float[np.ndarray, "C C"]
    """A, the unnormalised attention of the query's class (row) to the key's class (column)."""
    u: Float[np.ndarray, "C d"]
    """Values of the classes after attention's output matrix W_o."""


@inlined
def _add_product(a, b, out):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


@inlined
def attend(t):
    """Compute the query, key and value of each token class, and the attention weights between all classes."""
    classes, d = t.normed.shape
    in_weight = t.in_weight.reshape(3, d, d)
    qkvu, a = np.zeros((4, classes, d)), np.zeros((classes, classes))
    for part in range(2):
        _add_product(t.normed, in_weight[part].T, qkvu[part])
    _add_product(t.normed_values, in_weight[2].T, qkvu[2])
    q, k, v, u = qkvu[0], qkvu[1], qkvu[2], qkvu[3]
    _add_product(v, t.out_weight.T, u)
    _add_product(q, k.T, a)
    for c in range(classes):
        largest = a[c].max()
        for j in range(classes):
            a[c, j] = math.exp((a[c, j] - largest) / math.sqrt(d))
    return ClassAttention(q, k, v, a, u)


@inlined
def fold(t, s, w):
    """Combine the model's parameters into arrays for the kernel's matrix products, and write these to `w`."""
    (classes, d), f = t.embedding.shape, len(t.b1)
    for c in range(classes):
        for j in range(classes):
            for i in range(d):
                w.attention[c, i, j] = s.a[c, j] * s.u[j, i]
            w.attention[c, d, j] = s.a[c, j]
        for i in range(d):
            w.start[c, i] = t.embedding[c, i] + t.out_bias[i]
            w.embedding[c, i] = t.embedding[c, i]
    for h in range(f):
        bias = t.b1[h]
        for i in range(d):
            bias += t.w1[h, i] * t.norm_bias[i]
            w.w1[h, i] = t.w1[h, i] * t.norm_gain[i]
            w.w2[i, h] = t.w2[i, h]
        w.b1[h] = bias
    for i in range(d):
        w.b2[i] = t.b2[i]


@inlined
def unfold(g, t, s, out):
    """The backward pass of `fold` and `attend`: compute the gradient of the loss with respect to the parameters.

    `t` is a `LossParameters`, and `s` the `ClassAttention` that `attend` computes from it. `g` is the gradient with
    respect to the `PairWeights` that `fold` makes of them. The result is written to `out`, a `LossParameters` that must
    hold zeros before the call. All arrays are float64.
    """
    (classes, d), f = t.embedding.shape, len(t.b1)
    in_weight, d_in_weight = t.in_weight.reshape(3, d, d), out.in_weight.reshape(3, d, d)
    d_scores, d_qkvu = np.zeros((classes, classes)), np.zeros((4, classes, d))
    d_q, d_k, d_v, d_u = d_qkvu[0], d_qkvu[1], d_qkvu[2], d_qkvu[3]
    for c in range(classes):
        for j in range(classes):
            d_a = g.attention[c, d, j]
            for i in range(d):
                d_a += g.attention[c, i, j] * s.u[j, i]
                d_u[j, i] += g.attention[c, i, j] * s.a[c, j]
            d_scores[c, j] = d_a * s.a[c, j] / math.sqrt(d)
        for i in range(d):
            out.embedding[c, i] = g.embedding[c, i] + g.start[c, i]
            out.out_bias[i] += g.start[c, i]
    _add_product(d_scores, s.k, d_q)
    _add_product(d_scores.T, s.q, d_k)
    _add_product(d_u, t.out_weight, d_v)
    _add_product(d_u.T, s.v, out.out_weight)
    for part in range(2):
        _add_product(d_qkvu[part], in_weight[part], out.normed)
        _add_product(d_qkvu[part].T, t.normed, d_in_weight[part])
    _add_product(d_v, in_weight[2], out.normed_values)
    _add_product(d_v.T, t.normed_values, d_in_weight[2])
    for h in range(f):
        out.b1[h] = g.b1[h]
        for i in range(d):
            out.w1[h, i] = g.w1[h, i] * t.norm_gain[i] + g.b1[h] * t.norm_bias[i]
            out.norm_gain[i] += g.w1[h, i] * t.w1[h, i]
            out.norm_bias[i] += g.b1[h] * t.w1[h, i]
            out.w2[i, h] = g.w2[i, h]
    for i in range(d):
        out.b2[i] = g.b2[i]

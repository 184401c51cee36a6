"""The majority model's loss and gradients on one CPU core, backward written by hand and compiled by numba.

Equal tokens share one representation (there are no positions), so a sequence is its vector n_b of class counts and
the work is over pairs (sequence b, class c present in it). With U'_j = (u_j, 1), the value extended by a one, and the
abbreviations C, d and f for the number of classes, d_model and d_ff:

    (S, D) = sum_j n_bj A_cj U'_j                       attention: weighted values S, weights D
    y = E_c + b_o + S / D                               residual stream
    x = (y - mean y) / std y,  z = g x + b              LayerNorm, eps 0
    r = y + W_2 relu(W_1 z + b_1) + b_2                 feed-forward
    l = E r                                             logits, tied readout
    loss = sum_bc n_bc (log sum_k exp l_k - l_label) / tokens

The normed embeddings, h for queries and keys and h' for values, come from outside, so nothing here knows the norm; A
and u follow from them as in `model.attention_and_values`. Gradients are with respect to each field of
`LossParameters`, h and h' among them; the embedding's covers the residual stream and the readout.

How it is fast: pairs of one class are taken in blocks of `BLOCK`, an array holds one feature a row and one pair a
column, rows begin where a cache line does, and every inner loop runs along a row, so that LLVM vectorises it. How
it is exact: sums over pairs are in the parameters' dtype within a block and in float64 across blocks, and so is all
that is done once a batch. One thread: the result depends on nothing else, and several runs are several processes.
The first call ever compiles (about 20 s); numba keeps the result on disk.
"""

from layernorm_roles.majority.kernel.gradient import flat_gradient, loss_and_gradients, loss_only

__all__ = ["flat_gradient", "loss_and_gradients", "loss_only"]

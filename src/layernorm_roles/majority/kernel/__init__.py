"""The loss of the majority task's transformer on one CPU core, and its gradients by hand-written, compiled code.

Equal tokens share one representation (there are no positions), so a sequence b is its vector n_b of class counts and
the work is over pairs (sequence b, class c present in it). C, d and f are the number of classes, d_model and d_ff; A
and u are the weights and values of `model.attention_and_values`, with U'_j = (u_j, 1); g and b are the gain and bias of
norm2, and other letters those of `LossParameters`:

    (S, D) = sum_j n_bj A_cj U'_j                       attention: weighted values S, weights D
    y = E_c + b_o + S / D                               residual stream
    x = (y - mean y) / std y,  z = g x + b              LayerNorm, eps 0
    r = y + W_2 relu(W_1 z + b_1) + b_2                 feed-forward
    l = E r                                             logits, tied readout
    loss = sum_bc n_bc (log sum_k exp l_k - l_label) / tokens

The embeddings after the norm before attention are arguments, and gradients are with respect to all arguments. Pairs of
one class are taken in blocks of `BLOCK`. An array has a row for each feature and a column for each pair, and every
inner loop runs along a row, so that LLVM vectorises it. Sums over pairs are in the parameters' dtype within a block and
in float64 across blocks; what is done once a batch is in float64. The first call ever compiles (about 20 s).
"""

from layernorm_roles.majority.kernel.gradient import loss_and_gradients, loss_only

__all__ = ["loss_and_gradients", "loss_only"]

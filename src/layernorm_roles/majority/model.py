"""The transformer of the majority task (Brody et al. 2023), computed exactly from class counts instead of tokens.

The released model is one `torch.nn.TransformerEncoderLayer` without positions, read out by the transposed embedding. So
equal tokens of a sequence have equal outputs, and attention over tokens is attention over classes weighted by their
counts. Let n_bj be the count of class j in sequence b, E the embedding matrix, h and h' the matrix E after the norms
that make queries and keys (h) and values (h'), q = h W_Q^T, k = h W_K^T, v = h' W_V^T, u = v W_o^T and A_cj =
exp((q_c.k_j - max_i q_c.k_i) / sqrt(d_model)). With attention's output bias b_o, and with norm2, the LayerNorm before
the feed-forward part,

    y_bc = E_c + b_o + (sum_j n_bj A_cj u_j) / (sum_j n_bj A_cj)
    r_bc = y_bc + feed_forward(norm2(y_bc)),    logits_bc = E r_bc
    loss = sum_bc n_bc cross_entropy(logits_bc, label_b) / sum_bc n_bc

over the pairs (b, c) with n_bc > 0. This loss and its gradients equal those computed token by token.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from layernorm_roles import norms
from layernorm_roles.majority.parameters import LossParameters


class MajorityTransformer(nn.Module):
    """The one-layer transformer that Brody et al. (2023) train on the majority task, with torch's initialisation.

    `norm` names the norm before attention, as `norms.build_pair` takes it. As in the released code, there is one head,
    attention's input projection has no bias, and the norm before the feed-forward part is an ordinary LayerNorm.
    Built-in norms have eps = 0. There is no `forward`: `pair_loss` computes the loss from `loss_parameters()`.
    """

    norm_values: nn.Module | None
    """The norm whose output makes the values; None if that is `layer.norm1`, whose output makes queries and keys."""

    def __init__(self, classes: int, d_model: int, d_ff: int, norm: str):
        super().__init__()
        self.embedding = nn.Embedding(classes, d_model)
        self.layer = nn.TransformerEncoderLayer(
            d_model, 1, d_ff, dropout=0.0, layer_norm_eps=0.0, batch_first=True, norm_first=True
        )
        self.layer.self_attn.register_parameter("in_proj_bias", None)
        # Last, so that a norm that draws random parameters leaves the others as they are in every variant.
        self.layer.norm1, norm_values = norms.build_pair(norm, d_model)
        self.norm_values = None if norm_values is self.layer.norm1 else norm_values

    def normed(self) -> tuple[Float[Tensor, "classes d_model"], Float[Tensor, "classes d_model"]]:
        """The embeddings of all classes after the norm before attention: first for queries and keys, then for values.

        Both are the same tensor unless the variant has one norm for queries and keys and another for values.
        """
        normed = self.layer.norm1(self.embedding.weight)
        return normed, normed if self.norm_values is None else self.norm_values(self.embedding.weight)

    def norm_parameters(self) -> list[nn.Parameter]:
        """The learnt parameters of the norm or norms before attention; an empty list if they learn nothing."""
        of_values = [] if self.norm_values is None else self.norm_values.parameters()
        return [*self.layer.norm1.parameters(), *of_values]

    def loss_parameters(self) -> LossParameters:
        """The model's parameters, and the embeddings after the norm before attention, as input for `pair_loss`."""
        attention, layer = self.layer.self_attn, self.layer
        normed, normed_values = self.normed()
        return LossParameters(
            normed=normed,
            normed_values=normed_values,
            embedding=self.embedding.weight,
            in_weight=attention.in_proj_weight,
            out_weight=attention.out_proj.weight,
            out_bias=attention.out_proj.bias,
            norm_gain=layer.norm2.weight,
            norm_bias=layer.norm2.bias,
            w1=layer.linear1.weight,
            b1=layer.linear1.bias,
            w2=layer.linear2.weight,
            b2=layer.linear2.bias,
        )

    @torch.no_grad()
    def keys_and_queries(self) -> tuple[Float[Tensor, "classes d_model"], Float[Tensor, "classes d_model"]]:
        """The keys h_c and the queries W_K' W_Q h_c / sqrt(d_model) of all classes c, as rows of two matrices.

        h_c is the embedding of class c after the norm before attention, and ' means transposed. The inner product of a
        query and a key is the attention score. Both are in the coordinates of the residual stream; the angle between a
        query and the ones vector is the angle in Figure 2a of Brody et al. (2023).
        """
        keys = self.layer.norm1(self.embedding.weight)
        w_query, w_key, _ = self.layer.self_attn.in_proj_weight.chunk(3)
        return keys, keys @ w_query.T @ w_key / math.sqrt(keys.shape[-1])


def attention_and_values(
    parameters: LossParameters,
) -> tuple[Float[Tensor, "classes classes"], Float[Tensor, "classes d_model"]]:
    """The unnormalised attention weights between classes, and the classes' values after the output matrix W_o.

    Row c of the weights is for the query of class c, and column j for the key of class j. An entry is exp(score -
    largest score in the row).
    """
    w_query, w_key, w_value = parameters.in_weight.chunk(3)
    q, k = parameters.normed @ w_query.T, parameters.normed @ w_key.T
    v = parameters.normed_values @ w_value.T
    scores = q @ k.T / math.sqrt(q.shape[-1])
    # The largest score of a row cancels in the quotient: a constant, also for the gradient.
    return torch.exp(scores - scores.detach().amax(dim=-1, keepdim=True)), v @ parameters.out_weight.T


def pair_loss(
    parameters: LossParameters, counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The mean cross-entropy of a batch in nats per token, and the number of correctly predicted tokens.

    `counts` has the number of tokens of each class in each sequence, and `label` the majority class of each sequence.
    In float32 an attention weight underflows if its score is more than about 85 below the query's score for some class.
    If this happens to all classes that a sequence contains, the loss is NaN. With the variant `projection_grown` it can
    be NaN even before training.
    """
    p, d_model = parameters, parameters.embedding.shape[1]
    attention, values = attention_and_values(parameters)
    n = counts.to(p.embedding.dtype)
    batch, classes = counts.shape

    # One product for numerator and denominator of every pair: the values, and a column of ones.
    weighted = attention[:, :, None] * torch.cat([values, torch.ones_like(values[:, :1])], dim=1)
    sums = n @ weighted.transpose(0, 1).reshape(classes, classes * (d_model + 1))
    sums = sums.reshape(batch, classes, d_model + 1)
    # Classes that a sequence has not are computed, too, and count 0 times: to choose them by the counts
    # would make a GPU wait. Their own denominators may be 0, which would make NaN of 0 times their loss.
    attended = sums[..., :d_model] / sums[..., d_model:].where(counts[..., None] > 0, 1.0)
    y = p.embedding + p.out_bias + attended

    z = F.layer_norm(y, (d_model,), p.norm_gain, p.norm_bias, eps=0.0)
    r = y + F.linear(torch.relu(F.linear(z, p.w1, p.b1)), p.w2, p.b2)
    logits = r @ p.embedding.T

    target = label[:, None].expand(batch, classes)
    losses = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").reshape(batch, classes)
    loss = (n * losses).sum() / n.sum()
    right = (n * (logits.argmax(dim=-1) == target)).sum().long()
    return loss, right

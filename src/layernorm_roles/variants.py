"""The variants of the normalisation before attention: their names, and what each does.

This module imports nothing, so that settings, training and figures share the names without importing torch.
"""

from typing import Literal, NamedTuple


class Variant(NamedTuple):
    """A variant of the norm before attention that is one map; x is a vector of size d and P = I - 11'/d."""

    projects: bool
    """Whether x is projected onto the hyperplane orthogonal to the ones vector, Px."""
    scales: bool
    """Whether the result is scaled to norm sqrt(d)."""
    divides_by_d: bool = False
    """Whether the result is divided by d as well, as the released code of the paper does without projection."""
    factor: float = 1.0
    """A constant that multiplies every result; where a scalar or gain is learnt, the value at which it starts."""
    learns: Literal["nothing", "scalar", "gain", "gain and bias"] = "nothing"
    """What is learnt: a scalar or a vector, the gain, that multiplies the result; a bias, 0 at first, that is added."""


class SplitVariant(NamedTuple):
    """A variant whose queries and keys are made from one norm of x, and whose values from another."""

    queries_keys: str
    """The name in `VARIANTS` of the norm from which queries and keys are made."""
    values: str
    """The name in `VARIANTS` of the norm from which values are made."""


VARIANTS: dict[str, Variant] = {
    "layernorm": Variant(projects=True, scales=True),
    "projection": Variant(projects=True, scales=False),
    "scale": Variant(projects=False, scales=True),
    # The released code divides by sqrt(d) where LayerNorm multiplies by it: a factor of d between the two.
    "scale_released": Variant(projects=False, scales=True, divides_by_d=True),
    "layernorm_small": Variant(projects=True, scales=True, divides_by_d=True),
    # In an untrained GPT-2 the stream's entries are sums of two embeddings of standard deviation 0.02 each. This factor
    # gives LayerNorm's outputs the size that attention inputs without scaling have there.
    "layernorm_shrunk": Variant(projects=True, scales=True, factor=2**0.5 / 50),
    "none": Variant(projects=False, scales=False),
    # As transformers have it; the other variants go without gain and bias, as in the paper's experiments.
    "layernorm_affine": Variant(projects=True, scales=True, learns="gain and bias"),
    # RMSNorm as transformers have it; LayerNorm with as many parameters; and a LayerNorm that starts as small as
    # layernorm_shrunk but can grow, as a stream without scaling can.
    "scale_gain": Variant(projects=False, scales=True, learns="gain"),
    "layernorm_gain": Variant(projects=True, scales=True, learns="gain"),
    "layernorm_gain_small": Variant(projects=True, scales=True, factor=2**0.5 / 50, learns="gain"),
    # Without scaling the size of attention's inputs can be learnt apart from their direction.
    "none_scalar": Variant(projects=False, scales=False, learns="scalar"),
    "projection_scalar": Variant(projects=True, scales=False, learns="scalar"),
}
"""The built-in variants that are one map, by the name that config.yaml, the tables and `norms.build` use."""

SPLIT_VARIANTS: dict[str, SplitVariant] = {
    "projected_qk": SplitVariant(queries_keys="layernorm", values="scale"),
    "projected_v": SplitVariant(queries_keys="scale", values="layernorm"),
}
"""The built-in variants with two norms, by the name that config.yaml, the tables and `norms.build_pair` use."""

QUERY_KEY_VARIANT = "layernorm_qk"
"""A variant of the language model alone: layernorm, and a norm of each head's queries and keys after W_Q and W_K."""

NO_ATTENTION_VARIANT = "no_attention"
"""A variant of the language model alone: every layer goes without attention and its norms."""

PAPER_PROJECTION = ("layernorm", "scale_released")
"""The variants of the paper's Figures 1a, 1b, 2a, 2b and 3: with projection, and without it as in the released code."""

PAPER_SCALING = ("layernorm", "projection")
"""The variants of the paper's Figure 4: with scaling, and without it."""

BERT_VARIANTS: dict[str, bool] = {"none": False, "layernorm": True, NO_ATTENTION_VARIANT: True}
"""The variants of BERT, by the name that config.yaml and the tables use, and whether each has LayerNorms."""

"""The variants of the normalisation before attention: their names, and what each does.

This module imports nothing, so that settings, training and figures share the names without importing torch.
"""

from typing import NamedTuple


class Variant(NamedTuple):
    """One variant of the norm before attention; x is a vector of size d and P = I - 11'/d."""

    projects: bool
    """Whether x is projected onto the hyperplane orthogonal to the ones vector, Px."""
    scales: bool
    """Whether the result is scaled to norm sqrt(d)."""
    divides_by_d: bool = False
    """Whether the result is divided by d as well, as the released code of the paper does without projection."""


VARIANTS: dict[str, Variant] = {
    "layernorm": Variant(projects=True, scales=True),
    "projection": Variant(projects=True, scales=False),
    "scale": Variant(projects=False, scales=True),
    # The released code divides by sqrt(d) where LayerNorm multiplies by it: a factor of d between the two.
    "scale_released": Variant(projects=False, scales=True, divides_by_d=True),
    "layernorm_small": Variant(projects=True, scales=True, divides_by_d=True),
    "none": Variant(projects=False, scales=False),
}
"""The built-in variants by the name that config.yaml, the tables and `norms.build` use."""

QUERY_KEY_VARIANT = "layernorm_qk"
"""A variant of the language model alone: layernorm, and a norm of each head's queries and keys after W_Q and W_K."""

"""How figures and tables name the variants of the norm before attention."""

from layernorm_roles.variants import QUERY_KEY_VARIANT

LEGENDS: dict[str, str] = {
    "layernorm": "LayerNorm",
    "projection": "projection only",
    "scale": "scaling only",
    "scale_released": "scaling only, as released (÷ d)",
    "layernorm_small": "LayerNorm ÷ d",
    "none": "no norm",
    QUERY_KEY_VARIANT: "LayerNorm + QK-norm",
}
"""The text of each variant in the legends of figures and the rows of tables, in the order of the legends."""

"""How figures and tables name variants of the norm before attention, thresholds and the paper's model."""

from layernorm_roles.variants import NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT

LEGENDS: dict[str, str] = {
    "layernorm": "LayerNorm",
    "layernorm_affine": "LayerNorm with gain and bias",
    "layernorm_gain": "LayerNorm with gain",
    "layernorm_gain_small": "LayerNorm with gain from 0.028",
    "projected_qk": "LayerNorm for QK, scaling for V",
    "projected_v": "scaling for QK, LayerNorm for V",
    "projection": "projection only",
    "projection_scalar": "projection × learnt scalar",
    "layernorm_shrunk": "LayerNorm × 0.028",
    "scale": "scaling only",
    "scale_gain": "scaling with gain",
    "scale_released": "scaling only, as released (÷ d)",
    "layernorm_small": "LayerNorm ÷ d",
    "none": "no norm",
    "none_scalar": "no norm × learnt scalar",
    QUERY_KEY_VARIANT: "LayerNorm + QK-norm",
    NO_ATTENTION_VARIANT: "no attention",
}
"""The text of each variant in the legends of figures and the rows of tables, in the order of the legends."""

PAPER_MODEL = "gpt"
"""The language model of config.yaml that has the paper's sizes, and its numbers beside its own."""

FRACTIONS = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
"""How thresholds of shares of attention are written."""

"""The variants of the norm before attention: the name, formula, label and colour of each, and what it does.

A built-in norm is added by an entry in BUILT_IN. `python -m layernorm_roles.variants` prints the table of the guide.
"""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Named:
    """How a variant of the norm before attention is named, described and plotted in figures, tables and the guide."""

    label: str
    """What legends of figures and rows of tables call this variant of the norm before attention."""
    colour: str
    computes: str
    """What the variant makes of a vector x of size d, in Markdown, mostly as a formula with P = I − 11ᵀ/d."""
    stroke: str | tuple = "-"
    """Line style for matplotlib; not solid where a line would hide another or look like it to a colour-blind reader."""
    in_paper: str = "–"
    """What the paper calls the variant, in Markdown; a dash if the paper does not have it."""


@dataclass(frozen=True, kw_only=True)
class Variant(Named):
    """A variant with one norm before attention, from whose output queries, keys and values are made.

    The fields from `projects` on say, in the order in which it happens, what the norm does to a vector x of size d. P =
    I - 11'/d is the projection onto the hyperplane orthogonal to the ones vector.
    """

    projects: bool
    """Whether x is projected onto the hyperplane orthogonal to the ones vector, which gives Px."""
    scales: bool
    """Whether x, or its projection Px, is then scaled to norm sqrt(d)."""
    divides_by_d: bool = False
    """Whether the vector is then divided by d, as in the paper's released code for the variant without projection."""
    factor: float = 1.0
    """A constant that multiplies every vector; where a scalar or gain is learnt, its value before training."""
    learns: Literal["nothing", "scalar", "gain", "gain and bias"] = "nothing"
    """What is trained: nothing; a scalar or a vector (gain) that multiplies every x; and a bias, 0 at first, added."""


@dataclass(frozen=True, kw_only=True)
class SplitVariant(Named):
    """A variant with two norms before attention: one for queries and keys, and another for values."""

    queries_keys: str
    """The name in `VARIANTS` of the norm from whose output queries and keys are made."""
    values: str
    """The name in `VARIANTS` of the norm from whose output values are made."""


QUERY_KEY_VARIANT = "layernorm_qk"
"""Name of a variant for GPTs alone: layernorm before attention, and QK-norm: a norm of each head's queries and keys."""

MATCHED_VARIANT = "projection_matched"
"""Name of a variant for GPTs alone: the projection, divided by its running root mean square over training batches."""

NO_ATTENTION_VARIANT = "no_attention"
"""Name of a variant for language models alone: their layers have neither attention nor the norm before it."""

SHRUNK = 2**0.5 / 50
"""The factor that makes LayerNorm's outputs as small as attention's inputs are in an untrained GPT-2 without scaling:
there the entries of the residual stream are sums of two embeddings with a standard deviation of 0.02 each."""

# The colours are those of Okabe and Ito (2008) and, for the variants that split or extend LayerNorm, of Tol (2021);
# readers with any colour vision can tell apart those that meet in a figure. Black is kept for what the paper reports.
# LayerNorm and projection stand together in Figure 4, so they are not both blue. Variants go without gain and bias, as
# in the paper's experiments, but for those that say what they learn.
# fmt: off
BUILT_IN: dict[str, Named] = {
    "layernorm": Variant("LayerNorm", "#0072B2", projects=True, scales=True,
        computes="√d·Px / ‖Px‖, P = I − 11ᵀ/d", in_paper="with projection, with scaling"),
    "layernorm_affine": Variant("LayerNorm with gain and bias", "#8CC8A0", stroke=(0, (5, 1)),
        projects=True, scales=True, learns="gain and bias",
        computes="`layernorm` with a learnt gain and bias, as transformers have it"),
    "layernorm_gain": Variant("LayerNorm with gain", "#004A78", stroke=(0, (5, 1)),
        projects=True, scales=True, learns="gain",
        computes="`layernorm` with a learnt gain, 1 at first"),
    "layernorm_gain_small": Variant("LayerNorm with gain from 0.028", "#B07050", stroke=(0, (5, 1)),
        projects=True, scales=True, factor=SHRUNK, learns="gain",
        computes="`layernorm` with a learnt gain, 0.028 at first: as small as `layernorm_shrunk`, but it can grow"),
    "projected_qk": SplitVariant("LayerNorm for QK, scaling for V", "#332288", stroke=(0, (3, 1)),
        queries_keys="layernorm", values="scale",
        computes="`layernorm` for queries and keys, `scale` for values"),
    "projected_v": SplitVariant("scaling for QK, LayerNorm for V", "#7A0F45", stroke=(0, (1, 1)),
        queries_keys="scale", values="layernorm",
        computes="`scale` for queries and keys, `layernorm` for values"),
    "shrunk_qk": SplitVariant("LayerNorm × 0.028 for QK, LayerNorm for V", "#647828", stroke=(0, (3, 1)),
        queries_keys="layernorm_shrunk", values="layernorm",
        computes="`layernorm_shrunk` for queries and keys, `layernorm` for values"),
    "shrunk_v": SplitVariant("LayerNorm for QK, LayerNorm × 0.028 for V", "#DDAA33", stroke=(0, (1, 1)),
        queries_keys="layernorm", values="layernorm_shrunk",
        computes="`layernorm` for queries and keys, `layernorm_shrunk` for values"),
    "projection": Variant("projection only", "#CC79A7", stroke="--", projects=True, scales=False,
        computes="Px", in_paper="without scaling"),
    "projection_grown": Variant("projection × 35", "#EE3377", stroke=(0, (2, 1)),
        projects=True, scales=False, factor=1 / SHRUNK,
        computes="35.36·Px: `projection` of the size that LayerNorm has, before training"),
    "projection_scalar": Variant("projection × learnt scalar", "#8F3D6F", stroke=(0, (1, 1)),
        projects=True, scales=False, learns="scalar",
        computes="`projection` times one learnt number, 1 at first"),
    "layernorm_shrunk": Variant("LayerNorm × 0.028", "#661100", stroke=(0, (5, 1, 1, 1)),
        projects=True, scales=True, factor=SHRUNK,
        computes="0.028·LayerNorm: LayerNorm of the size that `projection` has before training"),
    "scale": Variant("scaling only", "#E69F00", projects=False, scales=True,
        computes="√d·x / ‖x‖ (RMSNorm without gain)", in_paper="without projection, as the text defines it"),
    "scale_gain": Variant("scaling with gain", "#A87400", stroke=(0, (5, 1)),
        projects=False, scales=True, learns="gain",
        computes="`scale` with a learnt gain, 1 at first", in_paper="– (RMSNorm as it is used)"),
    # The released code divides by sqrt(d) where LayerNorm multiplies by it: a factor of d between the two.
    "scale_released": Variant("scaling only, as released (÷ d)", "#D55E00",
        projects=False, scales=True, divides_by_d=True,
        computes="x / (√d‖x‖)", in_paper="without projection, as the released code computes it"),
    "layernorm_small": Variant("LayerNorm ÷ d", "#009E73", projects=True, scales=True, divides_by_d=True,
        computes="Px / (√d‖Px‖)", in_paper="– (control for the size of `scale_released`)"),
    "none": Variant("no norm", "#6A6A6A", stroke=(0, (6, 2)), projects=False, scales=False,
        computes="x", in_paper="no norm: Figure 1c, Table 4"),
    # Without scaling the size of attention's inputs can be learnt apart from their direction.
    "none_scalar": Variant("no norm × learnt scalar", "#B0B0B0", stroke=(0, (1, 1)),
        projects=False, scales=False, learns="scalar",
        computes="`none` times one learnt number, 1 at first"),
    QUERY_KEY_VARIANT: Named("LayerNorm + QK-norm", "#56B4E9", stroke=":",
        computes="GPT alone: `layernorm`, and `scale` of each head's queries and keys after W_Q and W_K (QK-norm)"),
    MATCHED_VARIANT: Named("projection of LayerNorm’s size", "#F07864", stroke=(0, (4, 1, 1, 1)),
        computes="GPT alone: Px / r, where r is the running root mean square of Px over the training batches"),
    NO_ATTENTION_VARIANT: Named("no attention", "#262626", stroke="-.",
        computes="language models alone: no attention and no norm before it: a baseline"),
}
# fmt: on
"""Every built-in variant of the norm before attention, by its name in config.yaml and tables, as legends order them."""

VARIANTS = {name: variant for name, variant in BUILT_IN.items() if isinstance(variant, Variant)}
"""The built-in variants with one norm for queries, keys and values, by the name that `norms.build` takes."""

SPLIT_VARIANTS = {name: variant for name, variant in BUILT_IN.items() if isinstance(variant, SplitVariant)}
"""The built-in variants with one norm for queries and keys and another for values, by name for `norms.build_pair`."""

PAPER_PROJECTION = ("layernorm", "scale_released")
"""Variants in the paper's Figures 1a, 1b, 2a, 2b, 3: with projection, and without it as in the released code."""

PAPER_SCALING = ("layernorm", "projection")
"""Names of the variants of the norm in the paper's Figure 4: with scaling, and without it."""

BERT_VARIANTS: dict[str, bool] = {"none": False, "layernorm": True, NO_ATTENTION_VARIANT: True}
"""The variants of the norm with which a BERT can be trained, by name, and whether the BERT then has LayerNorms."""


def scaled(like: str, factor: float, part: str = "both") -> str:
    """The name under which `norms.build_pair` builds the norm `like` times `factor`, such as "projection*35.0".

    `like` is a built-in norm. `part` says what is made from the product: "both" stands for queries, keys and values,
    "queries_keys" or "values" for these alone; the name then ends as in "layernorm*0.1@values".
    """
    return f"{like}*{factor!r}" + ("" if part == "both" else f"@{part}")


def maps(name: str) -> tuple[Variant, Variant] | None:
    """The two norms of the variant `name`: one for queries and keys, and one for values.

    They differ only for variants such as "projected_qk" and "layernorm*0.1@values". Returns None for a user's
    "package.module:Class", for variants that are more than norms, such as "no_attention", and for unknown names.
    """
    like, _, rest = name.partition("*")
    factor, _, part = rest.partition("@")
    split = SPLIT_VARIANTS.get(like)
    names = (split.queries_keys, split.values) if split else (like, like)
    if not VARIANTS.keys() >= {*names}:
        return None
    norms = [VARIANTS[each] for each in names]
    factors = [float(factor) if rest and part in ("", side) else 1.0 for side in ("queries_keys", "values")]
    return tuple(replace(norm, factor=norm.factor * by) for norm, by in zip(norms, factors, strict=True))


def label_of(like: str, factor: float, part: str = "both") -> str:
    """The label, in legends of figures, of the built-in norm `like` times `factor`, such as "35 × projection only".

    `part`, what is made from the product, is added unless it is "both"; it may also be "queries_keys" or "values".
    """
    parts = "" if part == "both" else f" ({part.replace('_', ', ')})"
    return f"{factor:g} × {BUILT_IN[like].label}{parts}"


def guide() -> str:
    """The table of the variants in docs/guide.md, in Markdown: what each computes, and what the paper calls it."""
    rows = [f"| `{name}` | {each.computes} | {each.in_paper} |" for name, each in BUILT_IN.items()]
    return "\n".join(["| name | computes | in the paper |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(guide(), end="")

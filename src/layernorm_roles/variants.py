"""The variants of the norm before attention: the name, formula, label and colour of each, and what it does.

One entry is all that a built-in norm needs. This module imports nothing heavy, so that settings, training, figures and
docs/guide.md share it. `python -m layernorm_roles.variants` prints the guide's table.
"""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Named:
    """Label, colour, line style and explanation of a variant, for figures, tables and the guide."""

    label: str
    """The text in legends of figures and rows of tables."""
    colour: str
    computes: str
    """What is computed of a vector x of size d, with P = I − 11ᵀ/d, in Markdown."""
    stroke: str | tuple = "-"
    """Line style; not solid where a line would hide another one or looks like one to a colour-blind reader."""
    in_paper: str = "–"
    """What the paper calls the variant, in Markdown."""


@dataclass(frozen=True, kw_only=True)
class Variant(Named):
    """A variant that is one map; x is a vector of size d and P = I - 11'/d."""

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


@dataclass(frozen=True, kw_only=True)
class SplitVariant(Named):
    """A variant whose queries and keys are made from one norm of x, and whose values from another."""

    queries_keys: str
    """The name in `VARIANTS` of the norm from which queries and keys are made."""
    values: str
    """The name in `VARIANTS` of the norm from which values are made."""


QUERY_KEY_VARIANT = "layernorm_qk"
"""A variant of the language model alone: layernorm, and a norm of each head's queries and keys after W_Q and W_K."""

MATCHED_VARIANT = "projection_matched"
"""A variant of the language model alone: projection, divided by its running size over the training batches."""

NO_ATTENTION_VARIANT = "no_attention"
"""A variant of the language model alone: every layer goes without attention and its norms."""

SHRUNK = 2**0.5 / 50
"""The factor that gives LayerNorm's outputs the size that attention inputs without scaling have in an untrained GPT-2,
where the stream's entries are sums of two embeddings of standard deviation 0.02 each."""

# The colours are those of Okabe and Ito (2008) and, for the variants that split or extend LayerNorm, of Tol (2021);
# readers with any colour vision can tell apart those that meet in a figure. Black is kept for what the paper reports.
# LayerNorm and projection stand together in Figure 4, so they are not both blue. Variants go without gain and bias, as
# in the paper's experiments, but for those that say what they learn.
# fmt: off
BUILT_IN: dict[str, Named] = {
    "layernorm": Variant("LayerNorm", "#0072B2", projects=True, scales=True,
        computes="√d·Px / ‖Px‖, P = I − 11ᵀ/d", in_paper="with projection, with scaling"),
    "layernorm_affine": Variant("LayerNorm with gain and bias", "#44AA99", stroke=(0, (5, 1)),
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
    "projected_v": SplitVariant("scaling for QK, LayerNorm for V", "#882255", stroke=(0, (1, 1)),
        queries_keys="scale", values="layernorm",
        computes="`scale` for queries and keys, `layernorm` for values"),
    "shrunk_qk": SplitVariant("LayerNorm × 0.028 for QK, LayerNorm for V", "#225522", stroke=(0, (3, 1)),
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
    "none": Variant("no norm", "#7F7F7F", stroke=(0, (6, 2)), projects=False, scales=False,
        computes="x", in_paper="no norm: Figure 1c, Table 4"),
    # Without scaling the size of attention's inputs can be learnt apart from their direction.
    "none_scalar": Variant("no norm × learnt scalar", "#B0B0B0", stroke=(0, (1, 1)),
        projects=False, scales=False, learns="scalar",
        computes="`none` times one learnt number, 1 at first"),
    QUERY_KEY_VARIANT: Named("LayerNorm + QK-norm", "#56B4E9", stroke=":",
        computes="GPT alone: `layernorm`, and `scale` of each head's queries and keys after W_Q and W_K (QK-norm)"),
    MATCHED_VARIANT: Named("projection of LayerNorm’s size", "#EE99AA", stroke=(0, (4, 1, 1, 1)),
        computes="GPT alone: Px / r, where r is the running root mean square of Px over the training batches"),
    NO_ATTENTION_VARIANT: Named("no attention", "#404040", stroke="-.",
        computes="language models alone: no attention and no norm before it, which tells what attention is worth"),
}
# fmt: on
"""Every built-in variant, by the name that config.yaml and the tables use, in the order of the legends."""

VARIANTS = {name: variant for name, variant in BUILT_IN.items() if isinstance(variant, Variant)}
"""The built-in variants that are one map, by the name that `norms.build` takes."""

SPLIT_VARIANTS = {name: variant for name, variant in BUILT_IN.items() if isinstance(variant, SplitVariant)}
"""The built-in variants with two norms, by the name that `norms.build_pair` takes."""

PAPER_PROJECTION = ("layernorm", "scale_released")
"""The variants of the paper's Figures 1a, 1b, 2a, 2b and 3: with projection, and without it as in the released code."""

PAPER_SCALING = ("layernorm", "projection")
"""The variants of the paper's Figure 4: with scaling, and without it."""

BERT_VARIANTS: dict[str, bool] = {"none": False, "layernorm": True, NO_ATTENTION_VARIANT: True}
"""The variants of BERT, by the name that config.yaml and the tables use, and whether each has LayerNorms."""


def scaled(like: str, factor: float, part: str = "both") -> str:
    """The name that `norms.build_pair` takes for the built-in norm `like` times a constant, such as "projection*35.0".

    `part` says whether both norms are multiplied, or only that of queries_keys or of values: "layernorm*0.1@values".
    """
    return f"{like}*{factor!r}" + ("" if part == "both" else f"@{part}")


def maps(name: str) -> tuple[Variant, Variant] | None:
    """The maps from which queries and keys, and values, are made, for what `norms.build_pair` takes.

    They are equal unless the variant is split. None for a norm of a user's own, and for an unknown name.
    """
    like, _, rest = name.partition("*")
    factor, _, part = rest.partition("@")
    split = SPLIT_VARIANTS.get(like)
    names = (split.queries_keys, split.values) if split else (like, like)
    if not VARIANTS.keys() >= {*names}:
        return None
    queries_keys, values = (
        replace(
            VARIANTS[name], factor=VARIANTS[name].factor * float(factor if part in ("", side) and rest else 1)
        )
        for name, side in zip(names, ("queries_keys", "values"), strict=True)
    )
    return queries_keys, values


def label_of(like: str, factor: float, part: str = "both") -> str:
    """The text in legends for the built-in norm `like` times `factor`."""
    return f"{factor:g} × {BUILT_IN[like].label}" + (
        "" if part == "both" else f" ({part.replace('_', ', ')})"
    )


def guide() -> str:
    """The table of docs/guide.md, in Markdown: what each built-in variant computes."""
    rows = [f"| `{name}` | {each.computes} | {each.in_paper} |" for name, each in BUILT_IN.items()]
    return "\n".join(["| name | computes | in the paper |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(guide(), end="")

"""The documents that the claims come from: author, title and address as far as they are known, or first words."""

from typing import NamedTuple


class Source(NamedTuple):
    """One document."""

    name: str
    """Short name, for links inside the page."""
    begins: tuple[str, ...]
    """How the sources of its claims begin, as the claims name them."""
    short: str
    """What readers choose it by."""
    text: str
    """Author, title, date and kind; for a text without a title its first words."""
    address: str = ""
    """Where it is read; empty where the address is not known."""


PAPER = "https://arxiv.org/abs/2305.02582"
RELEASED_CODE = "https://github.com/tech-srl/layer_norm_expressivity_role"

SOURCES = (
    Source(
        "slides",
        ("Brody, Alon and Yahav 2023, slides",),
        "the paper’s slides",
        "Shaked Brody, Uri Alon and Eran Yahav, the slides of the paper, which have its title. The claim stands in "
        "their summary: “Projection helps the model to learn to attend equally to all keys”.",
    ),
    Source(
        "paper",
        ("Brody, Alon and Yahav 2023",),
        "the paper",
        "Shaked Brody, Uri Alon and Eran Yahav, “On the Expressivity Role of LayerNorm in Transformers’ Attention”, "
        "Findings of the Association for Computational Linguistics: ACL 2023, arXiv:2305.02582.",
        PAPER,
    ),
    Source(
        "essay-on-the-paper",
        ("essay on the paper",),
        "an essay on the paper",
        "Less Wright, “What LayerNorm really does for Attention in Transformers”, an essay of 14 May 2023. The claim: "
        "projection makes “all keys … equally accessible” and “obviates the need for the Attention component to learn "
        "how to do this”.",
    ),
    Source(
        "geometry-essay",
        ("geometry essay",),
        "an essay on geometry",
        "An essay on the geometry of LayerNorm, author and title unknown. It begins: “Here, I explore some geometric "
        "intuition of layer normalization”.",
    ),
    Source(
        "question",
        ("question on W_O",),
        "a question on W_O",
        "A question with one answer on a site for questions, author unknown. It begins: “As I understand it, the "
        "forward pass for a transformer model looks as follows”. It supposes that without LayerNorm “the W_O matrix "
        "would be entirely redundant”; the answer begins: “The technical reason is the residual connection around the "
        "self-attention block”.",
    ),
    Source(
        "notes",
        ("transformer notes",),
        "notes on transformers",
        "Notes on transformers as questions and answers with worked examples, author and title unknown. They "
        "begin with the question what the dimensions of Q = X W_Q, K = X W_K and V = X W_V are. What is "
        "tested stands where they divide the scores (“remains in a reasonable range”, “poor gradient flow”), "
        "where they add residual connections (“Better Gradient Flow”), under “prenorm and postnorm” (“can "
        "suffer from instability when training deep models with many layers”), and where they compare "
        "LayerNorm with BatchNorm (“independent of the batch size”, “Handles Variable-Length Sequences”).",
    ),
    Source(
        "xiong",
        ("Xiong et al. 2020",),
        "Xiong et al. 2020",
        "Ruibin Xiong and nine others, “On Layer Normalization in the Transformer Architecture”, International "
        "Conference on Machine Learning 2020, arXiv:2002.04745.",
        "https://arxiv.org/abs/2002.04745",
    ),
    Source(
        "gupta",
        ("Gupta et al. 2026",),
        "Gupta et al. 2026",
        "Akshat Gupta and three others, “Geometric Interpretation of Layer Normalization and a Comparative Analysis "
        "with RMSNorm”, Findings of the Association for Computational Linguistics: EACL 2026, arXiv:2409.12951.",
        "https://arxiv.org/abs/2409.12951",
    ),
    Source(
        "ours",
        ("our question", "our finding"),
        "our own questions",
        "Questions of this repository, and what it found on the way.",
    ),
)
"""All documents; where two fit a claim, the first does."""


def source_of(named: str) -> Source:
    """The document that a claim names as its source.

    Raises KeyError if there is none of that name.

    >>> source_of("Brody, Alon and Yahav 2023, Figure 3; on other data").name
    'paper'
    """
    for source in SOURCES:
        if named.startswith(source.begins):
            return source
    raise KeyError(f"no source begins like {named!r}")

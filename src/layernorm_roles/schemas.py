"""The Parquet tables of a reproduction: which columns each has, what they mean, and in which units.

Each table is tidy: one row is one observation. The meaning and the unit of a column are in the metadata of its field,
so that every file explains itself: `pq.read_schema(path).field("step").metadata`.
"""

import pyarrow as pa

ANY, NORM = "any", "norm"
"""Values of the column `queries`: all queries, or those that the head can make behind its norm, on any text."""
AS_USED, WITHOUT_NORM = "as used", "without norm"
"""Values of the column `normalised`: the keys of the heads, or those made from the stream before the norm."""


def _column(name: str, kind: pa.DataType, meaning: str, unit: str = "", null: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"meaning": meaning, "unit": unit})


_STR, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()
_EXPERIMENT = _column("experiment", _STR, "name of the majority experiment in the configuration, e.g. d8, d3")
_VARIANT = _column("variant", _STR, "normalisation before attention, see layernorm_roles.variants")
_SEED = _column(
    "seed",
    _INT,
    "seed of data, initialisation and batch order, which all variants share",
)
_MODEL = _column("model", _STR, "name of the language model in the configuration, e.g. gpt, bert")
_STEP = _column("step", _INT, "optimiser steps taken; 0 is the initialisation", "steps")
_MAJORITY_POINT = [
    _column("d_model", _INT, "size of the residual stream, of keys and of queries"),
    _column("base_learning_rate", _FLOAT, "Adam's learning rate at the first step"),
]
_LAYER = [
    _column("context", _INT, "number of the context, from 0"),
    _column("layer", _INT, "layer, from 1"),
]
_KEYS_JUDGED = [
    _column("head", _INT, "head, from 0; null off heads", null=True),
    _column("causal", pa.bool_(), "are the rivals of a key only the keys before it?"),
    _column("n_keys", _INT, "keys in the context", "keys"),
    _column("dimensions", _INT, "dimension of a key: d_model, in a head d_head"),
    _column("n_unselectable", _INT, "keys with a certificate that no query selects them", "keys"),
    _column("n_borderline", _INT, "keys that the data's precision cannot decide", "keys"),
    _column("min_margin", _FLOAT, "smallest margin of a selectable key; null if none", null=True),
    _column("max_residual", _FLOAT, "largest residual of an unselectable key; null if none", null=True),
]
_PLACEMENT_RUN = [
    _column("placement", _STR, "pre or post"),
    _column("depth", _INT, "layers", "layers"),
    _column("learning_rate", _FLOAT, "Adam's, after the warm-up"),
    _column("warmup", _INT, "steps of linear warm-up, 0 for none", "steps"),
    _column("seed", _INT, "seed of initialisation and batches; runs that differ in other columns share them"),
]

_CEILINGS = pa.schema(
    [
        _column("model", _STR, "name of the model"),
        _column("variant", _STR, "norm before attention; null for a pretrained model", null=True),
        _column("seed", _INT, "seed of the run; null for a pretrained model", null=True),
        _column("checkpoint", _STR, "initial, final or pretrained"),
        *_LAYER,
        _column("head", _INT, "head of the queries, from 0"),
        _column("position", _INT, "position of the key in the context, from 0", "tokens"),
        _column("token", _STR, "the token's text"),
        _column(
            "queries",
            _STR,
            f"{ANY}: all queries; {NORM}: those that the head can make behind its norm, on any text",
        ),
        _column(
            "normalised",
            _STR,
            f"{AS_USED}: the head's keys; {WITHOUT_NORM}: keys made from the stream before the norm, see "
            "pretrained.keys.keys_without_norm",
        ),
        _column("n_keys", _INT, "keys in the context", "keys"),
        _column("dimensions", _INT, "dimension of a key, d_head"),
        _column("lower", _FLOAT, "attention that one query of the set gives the key", "0..1"),
        _column("upper", _FLOAT, "attention that no query of the set exceeds", "0..1"),
        _column(
            "received_max",
            _FLOAT,
            "largest attention that the context's own queries give the key; null for keys not as used",
            "0..1",
            null=True,
        ),
        _column(
            "received_mean",
            _FLOAT,
            "mean attention that those of them give it that see it; null for keys not as used",
            "0..1",
            null=True,
        ),
    ]
)
"""Ceilings of the keys in heads: of the language models of the configuration, or of pretrained models."""


def _judged(prefix: str, where: str) -> list[pa.Field]:
    """What one of two reproductions says of a claim; null if it has no such claim."""
    return [
        _column(f"{prefix}statistic", _STR, f"what was measured {where}, with its unit", null=True),
        _column(f"{prefix}measured", _FLOAT, f"the statistic of the test {where}", null=True),
        _column(f"{prefix}ci_low", _FLOAT, "lower end of its 95 % interval", null=True),
        _column(f"{prefix}ci_high", _FLOAT, "upper end of its 95 % interval", null=True),
        _column(f"{prefix}n_seeds", _INT, "independent runs behind the statistic", null=True),
        _column(f"{prefix}verdict", _STR, f"the verdict {where}", null=True),
    ]


SCHEMAS: dict[str, pa.Schema] = {
    "majority_data": pa.schema(
        [
            _column("split", _STR, "train or test"),
            _column("label", _INT, "the majority class"),
            _column("counts", pa.list_(pa.uint8()), "how often each class occurs in the sequence", "tokens"),
        ]
    ),
    "majority_metrics": pa.schema(
        [
            _EXPERIMENT,
            _VARIANT,
            _SEED,
            *_MAJORITY_POINT,
            _STEP,
            _column("train_loss", _FLOAT, "cross-entropy over the whole training set", "nats per token"),
            _column("test_loss", _FLOAT, "cross-entropy over the whole test set", "nats per token"),
            _column("test_accuracy", _FLOAT, "share of test tokens whose prediction is the majority", "0..1"),
            _column(
                "query_angle_mean",
                _FLOAT,
                "angle between W_K' W_Q norm(x) and the ones vector, folded; mean over training tokens",
                "degrees, 0..90",
            ),
            _column(
                "query_angle_std", _FLOAT, "standard deviation of that angle over training tokens", "degrees"
            ),
            _column(
                "score_std",
                _FLOAT,
                "standard deviation over the keys of all classes of the attention scores q.k / sqrt(d_model); mean "
                "over the queries of all classes",
            ),
            _column(
                "attention_share",
                _FLOAT,
                "perplexity of attention over the classes, each present once, divided by their number; mean over the "
                "queries of all classes; 1 if attention is equal",
                "1/classes..1",
            ),
            _column("learning_rate", _FLOAT, "learning rate of the step that comes next"),
        ]
    ),
    "majority_vectors": pa.schema(
        [
            _EXPERIMENT,
            _VARIANT,
            _SEED,
            *_MAJORITY_POINT,
            _column("checkpoint", _STR, "initial or final"),
            _column("token", _INT, "class"),
            _column("kind", _STR, "key: norm(x), the attention input; query: W_K' W_Q norm(x) / sqrt(d)"),
            _column("vector", pa.list_(_FLOAT), "the vector, in the coordinates of the attention input"),
        ]
    ),
    "random_keys": pa.schema(
        [
            _column("norm", _STR, "normalisation of the Gaussian keys, see layernorm_roles.variants"),
            _column("n", _INT, "keys in a matrix", "keys"),
            _column("d", _INT, "dimension of a key"),
            _column("matrices", _INT, "matrices drawn", "matrices"),
            _column("any_unselectable", _FLOAT, "share of matrices with an unselectable key", "0..1"),
            _column("mean_unselectable", _FLOAT, "unselectable keys in a matrix, mean", "keys"),
            _column("std_unselectable", _FLOAT, "unselectable keys in a matrix, standard deviation", "keys"),
            _column(
                "expected_unselectable",
                _FLOAT,
                "exact expectation for Gaussian keys; null where no formula is known",
                "keys",
                null=True,
            ),
            _column("n_borderline", _INT, "keys that the data's precision cannot decide", "keys"),
            _column("min_margin", _FLOAT, "smallest margin of all selectable keys; null if none", null=True),
            _column(
                "max_residual", _FLOAT, "largest residual of all unselectable keys; null if none", null=True
            ),
        ]
    ),
    "random_keys_precision": pa.schema(
        [
            _column("dtype", _STR, "precision of keys and LayerNorm: float64 or float32"),
            _column("eps", _FLOAT, "LayerNorm's eps, added to the variance"),
            _column("n", _INT, "keys in a matrix", "keys"),
            _column("d", _INT, "dimension of a key"),
            _column("matrices", _INT, "matrices drawn", "matrices"),
            _column("any_unselectable", _FLOAT, "share of matrices with an unselectable key", "0..1"),
            _column("mean_unselectable", _FLOAT, "unselectable keys in a matrix, mean", "keys"),
            _column("n_borderline", _INT, "keys that the data's precision cannot decide", "keys"),
            _column("min_margin", _FLOAT, "smallest margin of all selectable keys; null if none", null=True),
        ]
    ),
    "gaussian_law": pa.schema(
        [
            _column("d", _INT, "dimension of a key"),
            _column(
                "share", _FLOAT, "expected share of standard Gaussian keys that are unselectable", "0..1"
            ),
            _column("causal", pa.bool_(), "are the rivals of a key only the keys before it?"),
            _column(
                "n",
                _FLOAT,
                "number of keys from which on the share is at least so large; null beyond the largest number tried",
                "keys",
                null=True,
            ),
        ]
    ),
    "key_verdicts": pa.schema(
        [
            _column("key", _INT, "row of the matrix, from 0"),
            _column("verdict", _STR, "selectable, unselectable or borderline"),
            _column("margin", _FLOAT, "lead of the query, see Certificates; null without a query", null=True),
            _column("residual", _FLOAT, "distance from the weighted mean; null without weights", null=True),
            _column("duplicate", pa.bool_(), "another row is exactly equal"),
            _column("query", pa.list_(_FLOAT), "puts the key first; null without a query", null=True),
            _column(
                "support", pa.list_(_INT), "rows whose weighted mean is the key; null without", null=True
            ),
            _column("weights", pa.list_(_FLOAT), "their convex weights; null without", null=True),
        ]
    ),
    "language_model_metrics": pa.schema(
        [
            _MODEL,
            _VARIANT,
            _SEED,
            _STEP,
            _column("tokens", _INT, "training tokens seen", "tokens"),
            _column(
                "train_loss", _FLOAT, "cross-entropy on training batches since the last row", "nats per token"
            ),
            _column("valid_loss", _FLOAT, "cross-entropy over the validation batches", "nats per token"),
            _column(
                "unigram_loss",
                _FLOAT,
                "cross-entropy of the training tokens' frequencies on the tokens of valid_loss; null for labels",
                "nats per token",
                null=True,
            ),
            _column("learning_rate", _FLOAT, "learning rate of the step that comes next"),
            _column(
                "base_learning_rate", _FLOAT, "learning rate of the run, from which that of its steps falls"
            ),
            _column("steps", _INT, "optimiser steps of the whole run", "steps"),
            _column("seconds", _FLOAT, "wall time since training began; differs between reruns", "s"),
        ]
    ),
    "key_selectability": pa.schema(
        [
            _MODEL,
            _VARIANT,
            _SEED,
            _column("checkpoint", _STR, "initial or final"),
            _column("texts", _STR, "long or sentences"),
            *_LAYER,
            _column(
                "site",
                _STR,
                "before_norm, after_norm (the attention input), head (W_K x + b), or the last two with eps = 0: "
                "after_norm_exact, head_exact",
            ),
            *_KEYS_JUDGED,
        ]
    ),
    "pretrained_keys": pa.schema(
        [
            _column("model", _STR, "name of the pretrained model"),
            *_LAYER,
            _column(
                "site",
                _STR,
                "before_norm, after_norm (the attention input), head (as the head uses them), head_without_norm, or "
                "head_cut (its keys in their first principal components), see pretrained.keys",
            ),
            *_KEYS_JUDGED,
        ]
    ),
    "attention_ceilings": _CEILINGS,
    "language_model_ceilings": _CEILINGS,
    "contexts": pa.schema(
        [
            _column("texts", _STR, "long or sentences"),
            _column("context", _INT, "number of the context, from 0, in each of the two"),
            _column(
                "document", _INT, "number of the document, held out or of the contexts' own source, from 0"
            ),
            _column("tokens", pa.list_(pa.int32()), "token ids, in the text's tokenizer"),
        ]
    ),
    "sentence_tokens": pa.schema(
        [
            _MODEL,
            _VARIANT,
            _SEED,
            _column("checkpoint", _STR, "initial or final"),
            _column("context", _INT, "number of the sentence, from 0"),
            _column("layer", _INT, "layer, from 1"),
            _column("position", _INT, "position in the sentence, from 0", "tokens"),
            _column("token", _STR, "the token's text"),
            _column("verdict", _STR, "selectable, unselectable or borderline, at the attention input"),
        ]
    ),
    "geometry": pa.schema(
        [
            _column("norm", _STR, "layernorm, h(g(f(x))), or rmsnorm, g and a gain"),
            _column("n", _INT, "dimension of a vector"),
            _column("dtype", _STR, "precision of the arithmetic"),
            _column("eps_placement", _STR, "inside or outside the root; null where eps is 0", null=True),
            _column("eps", _FLOAT, "added to the mean square, or outside to its root"),
            _column("input_norm", _FLOAT, "length of the inputs; null where it does not matter", null=True),
            _column("offset", _FLOAT, "part along the ones vector, added to the inputs", "input_norm"),
            _column("quantity", _STR, "what was measured, see statements.geometry"),
            _column(
                "value", _FLOAT, "largest (mean, for radius_mean) over the inputs; infinite if not finite"
            ),
        ]
    ),
    "geometry_cloud": pa.schema(
        [
            _column("norm", _STR, "layernorm or rmsnorm"),
            _column("stage", _STR, "x, or after f (projection), g (scaling), h (gain and bias)"),
            _column("point", _INT, "number of the point; a point keeps it in every stage"),
            *(_column(f"x{i}", _FLOAT, f"coordinate {i}") for i in (1, 2, 3)),
        ]
    ),
    "fusion": pa.schema(
        [
            _column("source", _STR, "random, or language_model for the blocks of trained GPTs"),
            _column(
                "variant", _STR, "normalisation of the trained model; null for random weights", null=True
            ),
            _SEED,
            _column("layer", _INT, "layer, from 1"),
            _column("arrangement", _STR, "plain, residual, norm or residual_norm between W_O and W_1"),
            _column("inputs", _STR, "of the single map: heads, or stream_and_heads"),
            _column("d", _INT, "width of the residual stream"),
            _column("d_heads", _INT, "width of the concatenated heads"),
            _column("d_ff", _INT, "hidden units of the feed-forward part"),
            _column("n_fit", _INT, "tokens that the single map was fitted on", "tokens"),
            _column("n_held_out", _INT, "other tokens, on which the error is", "tokens"),
            _column("error", _FLOAT, "share of the held-out variance that the single map misses", "0..1"),
            _column("rank_w_o", _INT, "rank of W_O"),
            _column("rank_product", _INT, "rank of W_O W_1"),
            _column("parameters_pair", _INT, "entries of W_O and W_1", "parameters"),
            _column("parameters_single", _INT, "entries of the single map", "parameters"),
        ]
    ),
    "placement": pa.schema(
        [
            *_PLACEMENT_RUN,
            _STEP,
            _column(
                "train_loss",
                _FLOAT,
                "cross-entropy on the batch of the step that comes next",
                "nats per token",
            ),
            _column(
                "unigram_loss",
                _FLOAT,
                "loss of the token frequencies on the tokens of train_loss",
                "nats per token",
            ),
            _column("status", _STR, "of the whole run: trained, stuck or diverged, see statements.placement"),
        ]
    ),
    "placement_gradients": pa.schema(
        [
            *_PLACEMENT_RUN,
            _STEP,
            _column("layer", _INT, "layer, from 1 (nearest the embedding)"),
            _column("gradient_norm", _FLOAT, "norm of the loss's gradient in all parameters of the layer"),
        ]
    ),
    "placement_scales": pa.schema(
        [
            *_PLACEMENT_RUN,
            _STEP,
            _column("layer", _INT, "layer, from 1 (nearest the embedding)"),
            _column("part", _STR, "part of the layer: attention or feed_forward"),
            _column(
                "input_rms", _FLOAT, "root mean square of what the part receives, over tokens and features"
            ),
            _column("stream_rms", _FLOAT, "root mean square of the residual stream before the part"),
        ]
    ),
    "untrained_gradients": pa.schema(
        [
            _column("placement", _STR, "pre, post or none: where an untrained network has its LayerNorms"),
            _column(
                "residual", pa.bool_(), "is a part's output added to the residual stream, or takes its place?"
            ),
            _column("depth", _INT, "layers", "layers"),
            _column("seed", _INT, "seed of initialisation and batch, which all networks share"),
            _column("layer", _INT, "layer, from 1 (nearest the embedding)"),
            _column("gradient_norm", _FLOAT, "norm of the loss's gradient in all parameters of the layer"),
        ]
    ),
    "batch_dependence": pa.schema(
        [
            _column("norm", _STR, "layernorm or batchnorm"),
            _column("effect", _STR, "others, mode or padding, see statements.batch_dependence"),
            _column("batch_size", _INT, "sequences in a batch", "sequences"),
            _column("padding", _FLOAT, "share of a sequence that is padding", "0..1"),
            _SEED,
            _column(
                "change", _FLOAT, "root mean square change of a token's output; the output's own is about 1"
            ),
        ]
    ),
    "score_scale": pa.schema(
        [
            _column(
                "source",
                _STR,
                "normal, normal_mean_1, or majority or language_model for the heads of trained models",
            ),
            _column(
                "variant", _STR, "normalisation of the trained model; null for random vectors", null=True
            ),
            _SEED,
            _column("layer", _INT, "layer, from 1"),
            _column("head", _INT, "head, from 0"),
            _column("d_k", _INT, "dimension of queries and keys"),
            _column("n_keys", _FLOAT, "keys in a context, mean", "keys"),
            _column("divided", pa.bool_(), "scores divided by sqrt(d_k)?"),
            _column("score_mean", _FLOAT, "mean of the scores; the softmax does not depend on it"),
            _column("score_std", _FLOAT, "standard deviation of the scores"),
            _column("entropy", _FLOAT, "entropy of the attention weights, mean over queries", "nats"),
            _column(
                "entropy_share",
                _FLOAT,
                "entropy of the attention weights relative to ln(number of keys)",
                "0..1",
            ),
            _column("gradient", _FLOAT, "trace of the softmax's Jacobian, mean over queries", "0..1"),
        ]
    ),
    "worked_numbers": pa.schema(
        [
            _column("example", _STR, "the worked example"),
            _column("line", _INT, "line of the notes"),
            _column("quantity", _STR, "what the number is"),
            _column("stated", _STR, "the number, as written"),
            _column("recomputed", _FLOAT, "from the example's first inputs, in full precision"),
            _column("from_stated", _FLOAT, "from the numbers stated one step before", null=True),
            _column("tolerance", _FLOAT, "half a unit of the last written digit"),
            _column("hedged", pa.bool_(), "do the notes say that it is only what might come out?"),
            _column(
                "verdict", _STR, "right, rounding, hedged, carried or wrong, see statements.worked_numbers"
            ),
        ]
    ),
    "claims": pa.schema(
        [
            _column("claim", _STR, "short name of the claim"),
            _column("source", _STR, "where it is made"),
            _column("statement", _STR, "the claim, in one sentence"),
            _column("setting", _STR, "what differs from the setting of the source"),
            _column("paper_value", _STR, "the number given with it, as written", null=True),
            _column("statistic", _STR, "what was measured, with its unit"),
            _column("measured", _FLOAT, "the statistic of the test", null=True),
            _column("ci_low", _FLOAT, "lower end of its 95 % interval", null=True),
            _column("ci_high", _FLOAT, "upper end of its 95 % interval", null=True),
            _column(
                "reported",
                _FLOAT,
                "what the source gives for `measured`, in its unit; null if it gives no number",
                null=True,
            ),
            _column("control", _STR, "what isolates the claimed cause"),
            _column("control_measured", _FLOAT, "the statistic of the isolating comparison", null=True),
            _column("control_low", _FLOAT, "lower end of its 95 % interval", null=True),
            _column("control_high", _FLOAT, "upper end of its 95 % interval", null=True),
            _column(
                "also_passed_by",
                _STR,
                "models without what the claim is about that pass its test too, e.g. untrained models",
                null=True,
            ),
            _column("n_seeds", _INT, "independent runs behind the statistic"),
            _column("verdict", _STR, "one of evidence.claims.rules.Verdict"),
            _column("reason", _STR, "why"),
            _column("rule_fixed", _STR, "before or after the first look at data of this kind"),
        ]
    ),
    "comparison": pa.schema(
        [
            _column("claim", _STR, "short name of the claim"),
            _column("statement", _STR, "the claim, in one sentence"),
            *_judged("", "in this reproduction"),
            *_judged("against_", "in the reproduction that it is compared with"),
            _column("numbers", _STR, "how the measured numbers compare, see analysis.comparison.Numbers"),
            _column("verdicts", _STR, "same, changed, only here or only there"),
        ]
    ),
}
"""The columns of every table, by the name of the table."""

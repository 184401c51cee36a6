"""Texts and models made by hand for the tests of the language models: their right answers are known beforehand."""

import hashlib
import json

import numpy as np
import pandas as pd
import torch
from default_settings import example
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

from layernorm_roles import checkpoint, files, store
from layernorm_roles.language_model.measure import TABLES, measure_batch
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.train import train_batch
from layernorm_roles.plan import hash_of
from layernorm_roles.provenance import provenance
from layernorm_roles.settings.language_model import POINT, BERTSettings, GPTSettings
from layernorm_roles.text import downloads
from layernorm_roles.text.prepared import PreparedText

VOCABULARY = 300

GPT = example(GPTSettings, context_length=64)
"""The paper's GPT-2, for contexts of at most 64 tokens."""

SMALL_GPT = example(
    GPTSettings, layers=2, context_length=16, batch_size=4, steps=40, evaluate_every=7, validation_windows=3,
    checkpoint_every=9,
)  # fmt: skip
SMALL_BERT = example(
    BERTSettings, layers=2, d_ff=16, context_length=17, batch_size=4, steps=12, evaluate_every=6,
    validation_batches=2, checkpoint_every=5,
)  # fmt: skip


def changed(settings, **changes):
    return type(settings).model_validate(settings.model_dump() | changes)


def tokenizer(vocabulary=VOCABULARY):
    """A tokenizer that knows the words w0, w1, ... and gives each its number."""
    words = Tokenizer(WordLevel({f"w{i}": i for i in range(vocabulary)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return words


def contexts(*texts_and_tokens):
    """Table `contexts` with one row for each pair (long or sentences, token ids)."""
    numbers = {"long": 0, "sentences": 0}
    rows = []
    for texts, tokens in texts_and_tokens:
        rows.append((texts, numbers[texts], 0, np.asarray(tokens)))
        numbers[texts] += 1
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])


def prepared_text(folder, training, validation, frame, vocabulary=VOCABULARY):
    """The files of a prepared text with the given token streams and contexts."""
    text = PreparedText(folder)
    for part, stream in (("training", training), ("validation", validation)):
        with files.atomic_write(text.tokens(part)) as partial:
            np.save(partial, np.asarray(stream, np.uint16))
    with files.atomic_write(text.tokenizer) as partial:
        tokenizer(vocabulary).save(str(partial))
    store.write(frame, "contexts", text.contexts, provenance({}, "cpu"))
    content = hashlib.sha256(np.asarray([*training, *validation], np.uint16)).hexdigest()
    recorded = {"content_hash": content, "sha256": {}, "seed": 11}
    files.write_text(text.manifest, json.dumps(recorded))
    return text


def labelled(folder, rows, **changes):
    """Settings of a small BERT on labelled sentences, whose rows, by split, are downloaded to `folder`."""
    hub = folder / "hub"
    hub.mkdir()
    source = {"kind": "hub", "dataset": str(hub), "column": "sentence", "label_column": "label"}
    for split, columns in rows.items():
        pd.DataFrame(columns).to_parquet(hub / f"{split}.parquet")
    parts = {"training": source | {"split": "train"}, "validation": source | {"split": "validation"}}
    settings = changed(SMALL_BERT, task="labelled", **parts, **changes)
    for part in (settings.training, settings.validation):
        downloads.download(part, folder / part.file_name)
    return settings


def run_of(text, settings=SMALL_GPT, variant="layernorm", seed=0, model="hand_made"):
    name = f"{model}/{variant}/base_learning_rate_{settings.learning_rate}/steps_{settings.steps}"
    name += f"/query_key_rate_{settings.query_key_rate}/seed_{seed}"
    return LanguageModelRun(name, model, variant, variant, seed, settings, text)


def plan_of(runs, **changes):
    """The plan of a job that trains `runs` of one model, with other values for some keys."""
    named = [{"name": run.name, **run.columns, "norm": run.norm, **run.point} for run in runs]
    settings = runs[0].settings.model_dump(mode="json", exclude={*POINT.values()})
    plan = {"job": "trained", "code": "a", "made_by": {}, "settings": settings, "runs": named}
    plan |= {"device": "cpu", "device_check": "stop", "norm_code": {run.variant: None for run in runs}}
    return plan | changes


def files_in(folder, names):
    return {name: str(folder / f"{name}.file") for name in names}


def trained(runs, folder, downloads=(), **changes):
    out = files_in(folder, ("metrics", "attention", "weights"))
    inputs = {"manifest": str(runs[0].text.manifest), "downloads": [*map(str, downloads)]}
    train_batch(plan_of(runs, **changes), inputs, out, 1)
    return out


def save_weights(run, folder, **networks):
    """The file of weights of a batch of one run; networks are by the names of checkpoints."""
    tensors = {
        f"{run.name}/{checkpoint}/{name}": tensor
        for checkpoint, network in networks.items()
        for name, tensor in network.state_dict().items()
    }
    path = folder / "weights.safetensors"
    checkpoint.save(tensors, path, {"identity": plan_of([run])})
    return path


def measured(runs, weights, folder, *asked, leave_out=()):
    """The files of a trained batch, but for some runs, of which `asked` is measured: keys, ceilings or samples."""
    trained, flags = plan_of(runs), {kind: kind in asked for kind in ("keys", "ceilings", "samples")}
    plan = trained | {"runs": [run | flags for run in trained["runs"] if run["name"] not in leave_out]}
    plan |= {"made_by": {"trained": hash_of(trained), "text/hand_made": "b"}, "ceiling_contexts": 1}
    plan |= {"block_contexts": 2}
    inputs, out = {"manifest": str(runs[0].text.manifest)}, files_in(folder, (*TABLES.values(), "samples"))
    measure_batch(plan, str(weights), inputs, out, 1)
    return {"samples": out["samples"], **{name: out[table] for name, table in TABLES.items()}}


def randomise(network, seed=0):
    """Weights far from the initial ones, gains and biases included, so that nothing cancels."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in network.parameters():
            p.normal_(0, 0.5, generator=g)
    return network.eval()

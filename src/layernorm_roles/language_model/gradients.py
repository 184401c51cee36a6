"""How the gradients of W_Q, W_K and W_V at initialisation grow with the size of attention's input.

docs/step_size.md derives it: to the power 2, 2 and 0 if the size is that of queries and keys, and to 3, 3 and 1 if it
is that of values as well.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from layernorm_roles import store
from layernorm_roles.language_model import model, tasks
from layernorm_roles.provenance import provenance
from layernorm_roles.settings.language_model import GPTSettings
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.variants import scaled

SIZES = (1.0, 0.3, 0.1, 0.03, 0.01)
"""The factors f on LayerNorm's output at which gradients are measured."""

PARTS = ("queries_keys", "both")
"""What is made from the smaller output: queries and keys alone, or values as well."""


def measure_files(plan: Mapping[str, Any], manifest: str, out: str) -> None:
    """Write the table language_model_gradients of the model that `plan` names to the path `out`."""
    point = {"learning_rate": 1.0, "steps": 1, "query_key_rate": 1.0}  # of a training, which there is none of
    settings = GPTSettings.model_validate(plan["settings"] | point | {"schedule_steps": None})
    rows = measure(settings, PreparedText(Path(manifest).parent), plan["seeds"])
    table = pd.DataFrame(rows).assign(model=plan["model"])
    about = provenance(plan, "cpu", *tasks.NextToken.streams, torch=True)
    store.write(table, "language_model_gradients", out, about)


def measure(settings: GPTSettings, text: PreparedText, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Yield, by seed, part and size, the root of the summed squares of each matrix' gradient over all layers.

    The loss is that of the first training batch, without dropout.
    """
    tokenizer = tokenizers.load(text.tokenizer)
    for seed in seeds:
        task = tasks.build(settings, text, tokenizer, seed, None)
        batch = [torch.from_numpy(array) for array in task.batch(0)]
        for part in PARTS:
            for size in SIZES:
                norm = scaled("layernorm", size, part)
                network = model.build(settings, norm, norm, tokenizer.get_vocab_size(), seed).eval()
                network.loss(*batch).backward()
                gradients = [layer.attention.qkv.weight.grad.double() for layer in network.layers]
                squares = sum(each.unflatten(0, (3, -1)).square().sum(dim=(1, 2)) for each in gradients)
                for matrix, square in zip(("W_Q", "W_K", "W_V"), squares.tolist(), strict=True):
                    yield {"part": part, "size": size, "seed": seed, "matrix": matrix, "norm": square**0.5}

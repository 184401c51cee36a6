"""What trained language models have computed on a few texts: the files samples.safetensors of `language_model`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from layernorm_roles import checkpoint

Samples = Iterable[tuple[str | Path, Mapping[str, Any]]]
"""Files of samples, each with the plan of the job that wrote it."""


def trained_runs(samples: Samples) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
    """The runs in files of samples: name, variant, seed, layers, heads and contexts of a run, and its tensors.

    The tensors of layer l, from 1, are layer_l.stream, .heads, .w_o, .b_o, .gain, .bias and .w_1, and for each context
    c, from 0, layer_l.context_c.queries and .keys. Raises ValueError if a file is missing, damaged or of another plan.
    """
    for path, plan in samples:
        tensors, facts = checkpoint.load(path, plan)
        for run in facts["runs"]:
            start = f"{run['name']}/"
            mine = {name.removeprefix(start): x for name, x in tensors.items() if name.startswith(start)}
            yield run, mine

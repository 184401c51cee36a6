"""What other documents say about LayerNorm, measured.

`geometry`: an essay on LayerNorm as projection, scaling and affine map. `fusion`: a question whether W_O is
needed before a feed-forward part. `placement`, `batch_dependence`, `score_scale` and `worked_numbers`: notes on
the transformer. Each module has one function `measure` that turns its section of the configuration into a table.
"""

import numpy as np

# Stream numbers: np.random.default_rng([seed, STREAM]) gives every experiment its own draws.
GEOMETRY, CLOUD, FUSION, PLACEMENT_DATA, BATCH, SCORES = range(600, 606)

SEED_RULE = (
    "draws by default_rng([seed, stream, ...]), the streams of statements; weights by torch.manual_seed"
)


def generator(seed: int, stream: int, *more: int) -> np.random.Generator:
    """The generator of one seed and one experiment; `more` tells apart the settings inside it."""
    return np.random.default_rng([seed, stream, *more])

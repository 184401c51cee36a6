from pathlib import Path

import pytest
import yaml

from layernorm_roles.config import check

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("placement", "placements", ["middle"]),
        ("placement", "depths", [0]),
        ("placement", "heads", 5),
        ("placement", "learning_rates", [0]),
        ("geometry", "dtypes", ["float8"]),
        ("geometry", "dimensions", [1]),
        ("fusion", "head_factors", [0]),
        ("batch_dependence", "padding", [1]),
        ("score_scale", "d_k", []),
        ("score_scale", "unknown", 1),
    ],
)
def test_impossible_values_are_refused_with_their_key(section, key, value):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["statements"][section][key] = value
    with pytest.raises(ValueError, match=rf"statements\.{section}.*{key}"):
        check(config, ROOT / "workflow/schemas/config.schema.yaml")

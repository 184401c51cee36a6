"""What the page says of a reproduction's size, of a file's origin and of a run's vectors."""

import numpy as np
import pytest
from tiny_world import vectors as table_of_vectors

from layernorm_roles.evidence.page import sections, vectors


def test_the_longest_training_decides_whether_verdicts_are_given():
    experiments = {
        "short": {"steps": 100, "seeds": {"layernorm": 3}},
        "long": {"steps": 5000, "seeds": {"layernorm": 1}},
    }
    assert sections.too_small({"majority": experiments}) == []


def test_the_origin_of_a_file_stands_below_its_headings():
    origin = {
        "version": "1.2",
        "git_commit": "0123456789abcdef",
        "torch": "2.1",
        "python": "3.4",
        "device": "cpu",
        "config_sha256": "fedcba9876543210",
    }
    grid = sections.provenance({"claims": origin})
    (row,) = grid.rows
    assert dict(zip((column.name for column in grid.columns), row, strict=True)) == {
        "table": "claims.parquet",
        "version": "1.2",
        "commit": "0123456789",
        "torch": "2.1",
        "Python": "3.4",
        "device": "cpu",
        "settings (SHA-256)": "fedcba9876",
    }


@pytest.mark.parametrize(
    ("devices", "shown"),
    [
        (("cpu",), ["cpu"]),
        (("cpu", "cpu (znver5 with 512-bit vectors)"), ["cpu (znver5 with 512-bit vectors)"]),
        (("cpu", "cuda (a card), cpu"), ["cpu", "cuda (a card)"]),
    ],
)
def test_a_processor_that_is_named_stands_for_the_plain_word(devices, shown):
    assert sections.devices({str(i): {"device": device} for i, device in enumerate(devices)}) == shown


def test_the_view_has_the_trained_keys_and_queries_of_each_run():
    table = table_of_vectors()
    for view in vectors.views(table):
        experiment, _, variant = view["name"].partition(" ")
        for run in view["runs"]:
            rows = table[(table.experiment == experiment) & (table.variant == variant)]
            rows = rows[(rows.checkpoint == "final") & (rows.seed == run["seed"])].sort_values("token")
            for kind, name in (("key", "keys"), ("query", "queries")):
                known = np.stack(rows.vector[rows.kind == kind].to_numpy())
                np.testing.assert_allclose(run[name], known, atol=0.0005)

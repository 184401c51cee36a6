"""Runs that share a process leave the files that they leave in a process alone, byte for byte."""

import copy

from test_majority import SMALL, seeds

ALONE = {
    "name": "alone",
    "device": "cpu",
    "majority": {
        "d8": SMALL | {"seeds": seeds(layernorm=3), "seeds_per_job": 1},
        "d3": SMALL | {"seeds": {"layernorm": 0, "scale_released": 0, "scale": 0, "none": 1}},
        "d8_uniform": SMALL | {"seeds": {"layernorm": 0, "scale_released": 0, "scale": 0}},
    },
}
TOGETHER = copy.deepcopy(ALONE) | {"name": "together"}
TOGETHER["majority"]["d8"]["seeds_per_job"] = 2


def test_seeds_that_share_a_process_give_the_same_bytes(checkout):
    made = checkout(ALONE)
    made.run("results/alone/parquet/majority_metrics.parquet")
    made.configure(TOGETHER)
    made.run("results/together/parquet/majority_metrics.parquet")
    alone, together = (made.folder / "results" / name for name in ("alone", "together"))
    files = sorted(path.relative_to(alone) for path in (alone / "runs").rglob("*") if path.is_file())
    assert len(files) == 2 * 3 * 4, "three files of each run, and their checksums"
    assert files == sorted(
        path.relative_to(together) for path in (together / "runs").rglob("*") if path.is_file()
    )
    for file in files:
        assert (alone / file).read_bytes() == (together / file).read_bytes(), file
    logs = sorted(path.name for path in (together / "logs/majority_train").rglob("*.log"))
    assert logs == ["d3_none_0.log", "d8_layernorm_0.log", "d8_layernorm_2.log"], "d3 is like d8 in this too"

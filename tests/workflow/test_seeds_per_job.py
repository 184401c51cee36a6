"""Runs that share a process leave the files that they leave in a process alone, byte for byte."""

import copy

from test_majority import SMALL, seeds

ALONE = {
    "name": "alone",
    "device": "cpu",
    "first_seed": 5,
    "majority": {
        "only": ["d8", "d3"],
        "d8": SMALL | {"seeds": seeds(layernorm=3), "seeds_per_job": 1, "learning_rate": [0.001, 0.1]},
        "d3": SMALL | {"seeds": seeds(none=1), "learning_rate": 0.01},
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
    assert len(files) == 2 * 3 * (2 * 3 + 1), "three files of each run, and their checksums"
    assert files == sorted(
        path.relative_to(together) for path in (together / "runs").rglob("*") if path.is_file()
    )
    for file in files:
        assert (alone / file).read_bytes() == (together / file).read_bytes(), file
    folder = together / "logs/majority_train"
    logs = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.log"))
    assert logs == [
        "d3/none/d_model_3/learning_rate_0.01/seeds_5_to_5.log",  # d3 is like d8 in this too
        "d8/layernorm/d_model_8/learning_rate_0.001/seeds_5_to_6.log",
        "d8/layernorm/d_model_8/learning_rate_0.001/seeds_7_to_7.log",
        "d8/layernorm/d_model_8/learning_rate_0.1/seeds_5_to_6.log",
        "d8/layernorm/d_model_8/learning_rate_0.1/seeds_7_to_7.log",
    ]

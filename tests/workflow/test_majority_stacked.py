"""The workflow with a GPU: one training job an experiment, the same files as without. Here it trains on the CPU."""

import pandas as pd
import pytest
from test_majority import SMALL, seeds

from layernorm_roles import checkpoint, store

SETTINGS = {
    "name": "tiny",
    "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"},
    "majority": {
        "d8": SMALL | {"seeds": seeds(layernorm=2, dynamic_tanh=1)},
        "d3": SMALL | {"seeds": {"layernorm": 0, "scale_released": 0, "scale": 0, "none": 1}},
        "d8_uniform": SMALL | {"seeds": {"layernorm": 0, "scale_released": 0, "scale": 0}},
    },
}
RUNS = ["d8/layernorm/seed_0", "d8/layernorm/seed_1", "d8/dynamic_tanh/seed_0", "d3/none/seed_0"]


@pytest.fixture(scope="module")
def folders(checkout):
    """The runs of a checkout without a GPU, and of one that believes in a GPU until it trains."""
    found = []
    for device in ("cpu", "cuda"):
        made = checkout(SETTINGS | {"device": device})
        rules = made.folder / "workflow/rules/majority.smk"
        rules.write_text(rules.read_text().replace("device=device(),", 'device="cpu",'))
        made.run(*(f"results/tiny/parquet/majority_{kind}.parquet" for kind in ("metrics", "vectors")))
        found.append(made.folder / "results/tiny")
    return found


def test_one_job_an_experiment(folders):
    for folder, logs in zip(folders, (RUNS, ["d3", "d8"]), strict=True):
        kept = sorted((folder / "logs/majority_train").rglob("*.log"))
        assert [str(log.relative_to(folder / "logs/majority_train"))[:-4] for log in kept] == sorted(logs)


@pytest.mark.parametrize("kind", ["metrics", "vectors"])
def test_the_tables_are_the_same(folders, kind):
    alone, together = (
        store.read(f / f"parquet/majority_{kind}.parquet", f"majority_{kind}") for f in folders
    )
    pd.testing.assert_frame_equal(together, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("run", RUNS)
def test_every_run_has_its_own_files(folders, run):
    alone, together = (checkpoint.load(f / f"runs/majority/{run}/weights.safetensors") for f in folders)
    assert together[1] == alone[1]
    for name, value in alone[0].items():
        assert (together[0][name] - value).abs().max() < 1e-5, name
    for kind in ("metrics", "vectors"):
        files = [folder / f"runs/majority/{run}/{kind}.parquet" for folder in folders]
        pd.testing.assert_frame_equal(
            *(store.read(f, f"majority_{kind}") for f in files), rtol=1e-5, atol=1e-6
        )

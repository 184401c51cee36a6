"""The majority part of the workflow, whole, at a tiny size: outputs, reruns, bytes, bad input."""

import copy
import json
import re

import pandas as pd
import pytest

from layernorm_roles import planning, store, variants

SMALL = {"sequences": 300, "batch_size": 100, "steps": 4, "schedule_steps": 8, "evaluate_every": 2}
VARIANTS = (*variants.VARIANTS, *variants.SPLIT_VARIANTS)


def seeds(**numbers):
    return dict.fromkeys(VARIANTS, 0) | numbers


TINY = {
    "name": "tiny",
    "device": "cpu",
    "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"},
    "majority": {
        "only": ["d8", "d3", "d8_uniform", "widths"],
        "d8": SMALL | {"seeds": seeds(layernorm=2, scale_released=1, dynamic_tanh=1), "seeds_per_job": 2},
        "d3": SMALL | {"seeds": seeds(layernorm=1, none=1)},
        "d8_uniform": SMALL | {"seeds": seeds(layernorm=1)},
        "widths": SMALL
        | {
            "d_model": [3, 5],
            "learning_rate": [0.01, 0.1],
            "seeds_per_job": 1,
            "seeds": seeds(layernorm=2, projected_qk=1),
        },
    },
}
RUN = "d8/layernorm/d_model_8/base_learning_rate_0.001/seeds_1000_to_1001"


@pytest.fixture(scope="module")
def finished(checkout):
    """A checkout in which the majority target has run."""
    made = checkout(TINY)
    made.run("majority")
    return made


def results(finished):
    return finished.folder / "results" / "tiny"


def test_every_output_is_there_with_its_provenance(finished):
    metrics = store.read(results(finished) / "parquet/majority_metrics.parquet", "majority_metrics")
    runs = metrics.groupby(["experiment", "variant"]).seed.nunique().to_dict()
    assert runs == {
        ("d8", "layernorm"): 2,
        ("d8", "scale_released"): 1,
        ("d8", "dynamic_tanh"): 1,
        ("d3", "layernorm"): 1,
        ("d3", "none"): 1,
        ("d8_uniform", "layernorm"): 1,
        ("widths", "layernorm"): 2,
        ("widths", "projected_qk"): 1,
    }
    points = metrics[metrics.experiment == "widths"][["d_model", "base_learning_rate"]].drop_duplicates()
    assert set(points.itertuples(index=False, name=None)) == {(3, 0.01), (3, 0.1), (5, 0.01), (5, 0.1)}
    assert set(metrics.seed) == {1000, 1001}
    assert sorted(metrics.step.unique()) == [0, 2, 4]
    vectors = store.read(results(finished) / "parquet/majority_vectors.parquet", "majority_vectors")
    assert vectors[vectors.experiment == "d3"].vector.map(len).unique() == [3]
    assert (vectors.vector.map(len) == vectors.d_model).all()
    runs = vectors.groupby(["experiment", "variant", "seed", "d_model", "base_learning_rate", "checkpoint"])
    assert set(runs.size()) == {2 * 10, 2 * 20} and runs.ngroups == 2 * (4 + 2 + 1 + 4 * 3)
    origin = store.read_provenance(results(finished) / "parquet/majority_metrics.parquet")
    assert json.loads(origin["config"])["d8"]["steps"] == 4
    assert re.fullmatch(r"cpu \([^,]+ with \d+-bit vectors\)", origin["device"])
    for name in ("figure_1b", "figure_2a", "figure_2b", "figure_3", "majority_curves"):
        for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
            assert (results(finished) / f"figures/{name}.{kind}").read_bytes().startswith(magic)
    table = pd.read_csv(results(finished) / "tables/convergence.csv")
    assert "dynamic_tanh" in set(table.variant)
    for log in ("majority_data/d8/seed_1000", f"majority_train/{RUN}"):
        assert (results(finished) / f"logs/{log}.log").stat().st_size
        assert (results(finished) / f"benchmarks/{log}.tsv").stat().st_size


def test_a_second_run_does_nothing(finished):
    assert "Nothing to be done" in finished.run("majority")


def test_snakemake_makes_its_own_report_with_captions(finished):
    finished.run("--report", "report.html", "majority")
    page = (finished.folder / "report.html").read_text()
    plan = planning.Plan(planning.configured(finished.folder / "config.yaml", TINY))
    for name in ("figure_2a", "majority_widths_by_width"):
        assert " ".join(plan.figures()[name].caption.split()[:6]) in page


def test_what_was_lost_is_made_again_with_the_same_bytes(finished):
    lost = [
        "data/majority/d8/seed_1001.parquet",
        f"runs/majority/{RUN}/metrics.parquet",
        f"runs/majority/{RUN}/weights.safetensors",
        "parquet/majority_metrics.parquet",
        "figures/figure_2a.png",
        "figures/figure_1b.pdf",
        "tables/convergence.md",
    ]
    before = {name: (results(finished) / name).read_bytes() for name in lost}
    for name in lost:
        (results(finished) / name).unlink()
    finished.run("majority")
    for name, content in before.items():
        assert (results(finished) / name).read_bytes() == content, name


def test_an_edit_of_the_code_trains_again_and_an_edit_of_a_comment_does_not(finished):
    train = finished.folder / "src/layernorm_roles/majority/train.py"
    text = train.read_text()
    train.write_text(text + "\n# nothing new\n")
    assert "Nothing to be done" in finished.run("majority", "--dry-run")
    train.write_text(text + "\nSOMETHING = 'new'\n")
    assert "majority_train" in finished.run("majority", "--dry-run")
    train.write_text(text)
    norm = finished.folder / "examples/dynamic_tanh.py"
    norm.write_text(norm.read_text().replace("0.5", "0.4"))
    plan = finished.run("majority", "--dry-run")
    norm.write_text(norm.read_text().replace("0.4", "0.5"))
    assert counts(plan)["majority_train"] == 1


def counts(plan):
    """Jobs of each rule in a dry run."""
    rows = (line.split() for line in plan.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def test_one_more_seed_or_width_keeps_the_runs_that_are_there(finished):
    more = copy.deepcopy(TINY)
    more["majority"]["d8"]["seeds"]["layernorm"] = 3  # a batch of two is full, and a second one begins
    wider = copy.deepcopy(TINY)
    wider["majority"]["widths"] |= {"d_model": [3, 4, 5], "seeds_per_job": 1}
    finished.configure(wider)
    jobs = counts(finished.run("results/tiny/parquet/majority_metrics.parquet", "--dry-run"))
    assert jobs["majority_train"] == 2 * 3
    assert "majority_data" not in jobs
    finished.configure(more)
    plan = finished.run("majority", "--dry-run")
    finished.configure(TINY)
    assert counts(plan)["majority_train"] == counts(plan)["majority_data"] == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"majority": {"d8": {"steps": -1}}}, "majority.d8.steps = -1: expected integer at least 1"),
        ({"majority": {"d8": {"stpes": 1}}}, "majority.d8: unknown key 'stpes'"),
        (
            {"majority": {"d8": {"seeds": {"batchnorm": 1}}}},
            "majority.d8.seeds = 'batchnorm': expected one of",
        ),
        (
            {"norms": {"mine": "examples.dynamic_tanh:Missing"}, "majority": {"d8": {"seeds": {"mine": 1}}}},
            "norms.mine: norm 'examples.dynamic_tanh:Missing' cannot be imported",
        ),
        ({"name": "../elsewhere"}, "name = '../elsewhere': expected a folder name"),
    ],
)
def test_a_bad_configuration_stops_with_one_message_before_any_job(checkout, settings, says):
    made = checkout(settings)
    done = made.snakemake("majority")
    assert done.returncode != 0
    assert says in done.stdout
    assert "Traceback" not in done.stdout
    assert not (made.folder / "results").exists()


def test_a_loss_that_is_not_finite_is_reported_in_one_line(checkout):
    settings = copy.deepcopy(TINY)
    settings["norms"] = {"infinite": "infinite:Infinite"}
    settings["majority"]["d8"]["seeds"] = seeds(infinite=1)
    made = checkout(settings)
    (made.folder / "infinite.py").write_text(
        "from torch import nn\n"
        "class Infinite(nn.Module):\n"
        "    def __init__(self, dim): super().__init__()\n"
        "    def forward(self, x): return x * 1e20\n"
    )
    done = made.snakemake(
        "results/tiny/runs/majority/d8/infinite/d_model_8/base_learning_rate_0.001/seeds_1000_to_1000/metrics.parquet"
    )
    assert done.returncode != 0
    fault = "the loss is not finite at step 0; expected a finite number"
    assert f"majority d8 infinite d_model 8 learning rate 0.001 seed 1000: {fault}" in done.stdout
    assert "Traceback" not in done.stdout
    assert not list((made.folder / "results/tiny/runs").rglob("*.parquet"))

"""Which runs there are, what each is called, and how they are put together, for configurations counted by hand."""

import pytest
from default_settings import ROOT

from layernorm_roles import batches, planning
from layernorm_roles.variants import BUILT_IN

NONE = dict.fromkeys(BUILT_IN)
MINE = {"like": "d8", "seeds": {"scale": 3, "none": 0, "dynamic_tanh": 1}, "runs_per_job": 2}
ALONE = {"like": "d3", "seeds": {"layernorm": 2, "projected_qk": 1}, "runs_per_job": 1}
ALONE |= {"d_model": [3, 5], "learning_rate": ["1e-3", 0.1]}
OVERLAY = {"name": "mine", "first_seed": 7, "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"}}
AT = "d_model_8/base_learning_rate_0.001"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def settings_of(**sections):
    return planning.configured(ROOT / "config.yaml", OVERLAY | sections)


def of_majority(**experiments):
    return settings_of(majority={"only": [*experiments], **experiments})


def test_runs_are_counted_width_by_rate_by_variant_by_seed():
    settings = of_majority(mine=MINE, alone=ALONE)
    found = [*batches.runs_of(settings, "majority", "alone")]
    expected = [
        (width, rate, variant, seed)
        for width in (3, 5)
        for rate in (0.001, 0.1)
        for variant, seed in (("layernorm", 7), ("layernorm", 8), ("projected_qk", 7))
    ]
    columns = ("d_model", "base_learning_rate", "variant", "seed")
    assert [tuple(run[column] for column in columns) for run in found] == expected
    assert len({run["name"] for run in found}) == len(found)
    (mine, *_, own) = batches.runs_of(settings, "majority", "mine")
    point = {"experiment": "mine", "variant": "scale", "seed": 7, "d_model": 8, "base_learning_rate": 0.001}
    assert mine == {"name": f"mine/scale/{AT}/seed_7", "norm": "scale", **point}
    assert (own["variant"], own["norm"]) == ("dynamic_tanh", "examples.dynamic_tanh:DynamicTanh")


def test_a_batch_has_as_many_runs_of_one_kind_as_its_experiment_says_and_keeps_their_order():
    """More seeds keep the batches that are full; and all runs of an experiment may be one batch."""
    settings = of_majority(mine=MINE, alone=ALONE)
    found = batches.batches(settings, "majority")
    names = {f"mine/scale/{AT}/seeds_7_to_8": [7, 8], f"mine/scale/{AT}/seeds_9_to_9": [9]}
    names[f"mine/dynamic_tanh/{AT}/seeds_7_to_7"] = [7]
    assert {name: batch.seeds for name, batch in found.items() if batch.group == "mine"} == names
    alone = [batch for batch in found.values() if batch.group == "alone"]
    assert len(alone) == 12 and all(batch.name == batch.runs[0]["name"] for batch in alone)
    runs = [run["name"] for batch in found.values() for run in batch.runs]
    each = [run["name"] for one in ("mine", "alone") for run in batches.runs_of(settings, "majority", one)]
    assert runs == each, "no run is left out or trained twice"
    many = batches.batches(of_majority(mine=MINE | {"seeds": {"scale": 5, "dynamic_tanh": 1}}), "majority")
    kept = {name.rpartition("/")[2] for name in found if many.get(name) == found[name]}
    assert kept == {"seeds_7_to_8", "seeds_7_to_7"}
    ((name, one),) = batches.batches(of_majority(alone=ALONE | {"runs_per_job": "all"}), "majority").items()
    assert (name, one.group, one.seeds, len(one.runs)) == ("alone/all", "alone", [7, 8], 12)


MODELS = {
    "only": ["bert", "gpt_bytes", "gpt", "rates"],
    "bert": {"seeds": {"none": 1, "layernorm": 0, "no_attention": 1}},
    "gpt_bytes": {"seeds": NONE | {"layernorm": 2, "projection": 1, "no_attention": 2}, "ceiling_seeds": 1},
    "gpt": {"seeds": NONE | {"layernorm": 1, "scale": 1}, "ceiling_seeds": 0, "runs_per_job": "all"},
    "rates": {"like": "gpt_bytes", "learning_rate": [0.1, 0.2], "seeds": NONE | {"layernorm": 1}},
}


def test_what_is_measured_is_asked_of_the_settings():
    settings, found = settings_of(language_model=MODELS), {}
    for batch in batches.batches(settings, "language_model").values():
        for run in batches.measured(settings, batch):
            what = "".join(flag[0] for flag in ("keys", "ceilings", "samples") if run[flag])
            found[f"{run['model']}/{run['variant']}/{run['seed'] - 7}"] = what
    assert found == {
        "bert/none/0": "k",
        "gpt_bytes/layernorm/0": "kcs",
        "gpt_bytes/layernorm/1": "ks",
        "gpt_bytes/projection/0": "kc",
        "gpt/layernorm/0": "k",
        "gpt/scale/0": "k",
    }

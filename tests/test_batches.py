"""Which runs there are, what each is called, and how they are put together, for configurations counted by hand."""

import pytest
from default_settings import ROOT

from layernorm_roles import batches, planning
from layernorm_roles.variants import BUILT_IN

NONE = dict.fromkeys(BUILT_IN)
MINE = {"like": "d8", "seeds": {"scale": 3, "none": 0, "dynamic_tanh": 1}, "runs_per_job": 2}
ALONE = {"like": "d3", "seeds": {"layernorm": 2, "projected_qk": 1}, "runs_per_job": 1}
ALONE |= {"d_model": [3, 5], "learning_rate": ["1e-3", 0.1]}
OVERLAY = {
    "name": "mine",
    "first_seed": 7,
    "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"},
    "majority": {"only": ["mine", "alone"], "mine": MINE, "alone": ALONE},
}


def settings_of(overlay):
    return planning.configured(ROOT / "config.yaml", overlay)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_runs_are_counted_width_by_rate_by_variant_by_seed():
    settings = settings_of(OVERLAY)
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
    name = "mine/scale/d_model_8/base_learning_rate_0.001/seed_7"
    point = {"experiment": "mine", "variant": "scale", "seed": 7, "d_model": 8, "base_learning_rate": 0.001}
    assert mine == {"name": name, "norm": "scale", **point}
    assert (own["variant"], own["norm"]) == ("dynamic_tanh", "examples.dynamic_tanh:DynamicTanh")


def test_a_batch_has_as_many_runs_of_one_kind_as_its_experiment_says_and_keeps_their_order():
    found = batches.batches(settings_of(OVERLAY), "majority")
    of_mine = [name for name in found if name.startswith("mine/")]
    assert of_mine == [
        "mine/scale/d_model_8/base_learning_rate_0.001/seeds_7_to_8",
        "mine/scale/d_model_8/base_learning_rate_0.001/seeds_9_to_9",
        "mine/dynamic_tanh/d_model_8/base_learning_rate_0.001/seeds_7_to_7",
    ]
    assert [found[name].seeds for name in of_mine] == [[7, 8], [9], [7]]
    alone = [batch for batch in found.values() if batch.group == "alone"]
    assert len(alone) == 12 and all(batch.name == batch.runs[0]["name"] for batch in alone)
    runs = [run["name"] for batch in found.values() for run in batch.runs]
    each = [
        run["name"]
        for group in ("mine", "alone")
        for run in batches.runs_of(settings_of(OVERLAY), "majority", group)
    ]
    assert runs == each, "no run is left out or trained twice"


def test_more_seeds_keep_the_batches_that_are_full():
    few = batches.batches(settings_of(OVERLAY), "majority")
    more = {**MINE, "seeds": {"scale": 5, "dynamic_tanh": 1}}
    many = batches.batches(settings_of(OVERLAY | {"majority": {"only": ["mine"], "mine": more}}), "majority")
    kept = {name for name in few if many.get(name) == few[name]}
    assert {name.rpartition("/")[2] for name in kept} == {"seeds_7_to_8", "seeds_7_to_7"}


def test_all_runs_of_an_experiment_may_be_one_batch():
    one = {**OVERLAY, "majority": {"only": ["alone"], "alone": ALONE | {"runs_per_job": "all"}}}
    ((name, batch),) = batches.batches(settings_of(one), "majority").items()
    assert (name, batch.group, batch.seeds, len(batch.runs)) == ("alone/all", "alone", [7, 8], 12)


MODELS = {
    "only": ["bert", "gpt_bytes", "gpt", "rates"],
    "bert": {"seeds": {"none": 1, "layernorm": 0, "no_attention": 1}},
    "gpt_bytes": {"seeds": NONE | {"layernorm": 2, "projection": 1, "no_attention": 2}, "ceiling_seeds": 1},
    "gpt": {"seeds": NONE | {"layernorm": 1, "scale": 1}, "ceiling_seeds": 0, "runs_per_job": "all"},
    "rates": {"like": "gpt_bytes", "learning_rate": [0.1, 0.2], "seeds": NONE | {"layernorm": 1}},
}


def test_what_is_measured_is_asked_of_the_settings():
    settings = settings_of({"language_model": MODELS})
    found = {}
    for batch in batches.batches(settings, "language_model").values():
        for run in batches.measured(settings, batch):
            what = "".join(
                letter for letter, flag in (("k", "keys"), ("c", "ceilings"), ("s", "samples")) if run[flag]
            )
            found[f"{run['model']}/{run['variant']}/{run['seed'] - settings.first_seed}"] = what
    assert found == {
        "bert/none/0": "k",
        "gpt_bytes/layernorm/0": "kcs",
        "gpt_bytes/layernorm/1": "ks",
        "gpt_bytes/projection/0": "kc",
        "gpt/layernorm/0": "k",
        "gpt/scale/0": "k",
    }

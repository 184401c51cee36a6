"""What each job of a plan is given: its files, its parameters, what it asks of a cluster, and whose code counts."""

import math
from itertools import product
from pathlib import Path

import pytest
from plans import ROOT, planned

from layernorm_roles import planning
from layernorm_roles.provenance import code_version

SMOKE = ROOT / "workflow/presets/smoke.yaml"
NORM = "examples.dynamic_tanh:DynamicTanh"
CONFIG = {
    "device": "cuda",
    "device_check": "warn",
    "norms": {"mine": NORM},
    "majority": {"d8": {"seeds": {"mine": 3}}},
    "random_keys": {"norms": ["none", "mine"]},
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "more.yaml"
    file.write_text(planning.json.dumps(CONFIG))
    return planned([SMOKE, file], {})["jobs"]


@pytest.fixture(scope="module")
def settings():
    overlay = planning.merged(planning.yaml_files.read(SMOKE), CONFIG)
    return planning.configured(ROOT / "config.yaml", overlay).model_dump(mode="json")


DATA = "sequence_length classes majority_gap sequences labellings sampling split test_share".split()
OF_TRAINING = (*DATA, "d_ff", "batch_size", "steps", "schedule_steps", "evaluate_every", "checkpoint_every")
"""What a run of the majority task depends on, beside its name."""
WHOLE = {"page", "settings", "durations", "claims", "tables", "fusion", "score_scale"}


def seeds(number):
    return list(range(1000, 1000 + number))


WORK = "majority_train language_model_train language_model_keys language_model_ceilings language_model_activations"


def work_of(job):
    """What a job for runs does, one of WORK, and the experiment or model it is for; None and None for other jobs.

    A job for all runs of an experiment or model has no wildcards and a rule of its own.
    """
    for work in WORK.split():
        if job["rule"] == work:
            return work, job["wildcards"].get("experiment") or job["wildcards"]["model"]
        if job["rule"].startswith(f"{work}_"):
            return work, job["rule"].removeprefix(f"{work}_")
    return None, None


def runs_of(job, settings):
    """What names the runs or batches of a job, in the order of its files."""
    work, group = work_of(job)
    majority, named = work == "majority_train", job["wildcards"]
    own = settings["majority" if majority else "language_model"][group]
    point = {"d_model": own["d_model"], "base_learning_rate": own["learning_rate"]}
    if not majority:
        point = {"base_learning_rate": own["learning_rate"], "steps": own["steps"]}
    found = []
    for values in product(*point.values()):
        for variant, number in own["seeds"].items():
            here = {("experiment" if majority else "model"): group, "variant": variant}
            here |= dict(zip(point, values, strict=True))
            size = own["runs_per_job"] if majority else 1
            size = 1 if size == "all" else size
            batches = [seeds(number)[first : first + size] for first in range(0, number, size)]
            found += [here | ({"seeds": batch} if majority else {"seed": batch[0]}) for batch in batches]
    judged = {
        "language_model_keys": lambda run: run["variant"] != "no_attention",
        "language_model_ceilings": lambda run: (
            run["variant"] in ("layernorm", "projection") and run["seed"] < 1000 + own["ceiling_seeds"]
        ),
        "language_model_activations": lambda run: run["variant"] == "layernorm",
    }.get(work, lambda run: True)
    found = [run for run in found if judged(run)]
    if not named:
        assert own["runs_per_job"] == "all"
        return found
    assert own["runs_per_job"] != "all"
    text = {name: str(value) for name, value in named.items() if name != "seeds"}
    of_job = [run for run in found if text.items() <= {key: str(value) for key, value in run.items()}.items()]
    first_last = [f"{run['seeds'][0]}_to_{run['seeds'][-1]}" for run in of_job] if majority else []
    return [of_job[first_last.index(named["seeds"])]] if majority else of_job


def expected(job, settings):
    """The parameters that a job must have, by its rule, from the settings as the user wrote them."""
    rule, named, statements = job["rule"], job["wildcards"], settings["statements"]
    if rule in statements and rule != "placement":
        own = {"settings": statements[rule]}
        return own | ({"seed": 1000} if rule == "geometry" else {"seeds": seeds(statements[rule]["seeds"])})
    if rule == "majority_data":
        experiment = settings["majority"][named["experiment"]]
        return {"settings": {key: experiment[key] for key in DATA}}
    work, group = work_of(job)
    if work:
        runs = runs_of(job, settings)
        variants = dict.fromkeys(run["variant"] for run in runs)
        own = {
            "runs": runs,
            "norms": {variant: settings["norms"].get(variant, variant) for variant in variants},
            "norm_code": {
                variant: code_version(ROOT / "examples/dynamic_tanh.py") if variant == "mine" else None
                for variant in variants
            },
        }
    if work == "majority_train":
        experiment = settings["majority"][group]
        own |= {"settings": {key: experiment[key] for key in OF_TRAINING}}
        own |= {"seeds": sorted({seed for run in runs for seed in run["seeds"]})}
        return own | {"device": "cpu", "device_check": "warn"}
    if work:
        model = settings["language_model"][group]
        not_of_runs = ("seeds", "learning_rate", "steps", "ceiling_seeds", "ceiling_contexts", "runs_per_job")
        own |= {"settings": {key: value for key, value in model.items() if key not in not_of_runs}}
        if work == "language_model_train":
            downloads = "results/smoke/data/downloads"
            return own | {"device": "cuda", "device_check": "warn", "downloads": downloads}
        if work == "language_model_ceilings":
            own["contexts"] = model["ceiling_contexts"]
        if work == "language_model_activations":
            own["block_contexts"] = statements["fusion"]["contexts"]
            own["head_contexts"] = statements["score_scale"]["contexts"]
        return own
    if rule.startswith("draw"):
        return {"settings": {part: settings[part] for part in planning.figures.SECTIONS}}
    placement = statements["placement"]
    return {
        "text": lambda: {
            "settings": settings["text"][named["text"]],
            "seed": 1000,
            "downloads": "results/smoke/data/downloads",
        },
        "pretrained_measure": lambda: {"settings": settings["pretrained"][named["pretrained"]]},
        "random_keys_table": lambda: {
            "settings": settings["random_keys"],
            "seed": 1000,
            "norms": {"none": "none", "mine": NORM},
            "norm_code": {"none": None, "mine": code_version(ROOT / "examples/dynamic_tanh.py")},
        },
        "placement_train": lambda: {
            "settings": placement,
            "seeds": seeds(placement["seeds"]),
            "untrained_seeds": seeds(placement["untrained_seeds"]),
        },
        "gaussian_law": lambda: {"settings": settings["random_keys"]["law"]},
        "tables": lambda: {"table": named["table"]},
        "settings": lambda: {"settings": settings},
        "page": lambda: {"settings": settings, "options": " --configfile workflow/presets/smoke.yaml"},
    }.get(rule, dict)()


def test_every_parameter_is_the_setting_that_its_name_means(jobs, settings):
    """Wherever two settings could be exchanged, they have different values in the smoke preset."""
    for job in jobs:
        wanted = expected(job, settings)
        given = {name: value for name, value in job["params"].items() if name != "code"}
        if job["rule"] in WHOLE:  # lists of files and identities have tests of their own
            given = {name: given[name] for name in wanted}
        assert given == wanted, (job["rule"], job["wildcards"])


def test_each_of_the_two_reproductions_is_judged_with_its_own_settings(jobs, settings):
    kept = planning.KeptReproduction(str(ROOT / "results/published")).plain
    (own,) = (job["params"] for job in jobs if job["rule"] == "claims")
    of_the_kept = planned([SMOKE], {}, ("published_claims", "published_page", "publish"))["jobs"]
    published, page, publish = (
        {job["rule"]: job["params"] for job in of_the_kept}[f"publish{end}"]
        for end in ("ed_claims", "ed_page", "")
    )
    assert own["settings"] == settings and published["settings"] == page["settings"] == kept != settings
    assert page["options"] == "", "commands on its page need no preset"
    assert own["rules"] == "results/smoke/rules.json"
    assert published["rules"] == "results/published/rules.json"
    kept_files = {"rules.json", "settings.json", "parquet/claims.parquet", "tables/claims.csv"}
    assert kept_files <= {*publish["files"]}, "publish writes the pages itself"


def test_settings_that_could_be_exchanged_differ_in_the_smoke_preset(settings):
    statements = settings["statements"]
    for pair in (
        [statements[name]["contexts"] for name in ("fusion", "score_scale")],
        [statements["placement"][name] for name in ("seeds", "untrained_seeds")],
        [statements[name]["seeds"] for name in ("fusion", "placement", "batch_dependence", "score_scale")],
    ):
        assert len({*pair}) == len(pair), pair


def test_a_retry_asks_for_twice_what_the_first_attempt_asked_for(jobs):
    """Each job asks for memory and time but `settings`, which runs where the command does."""
    for job in jobs:
        first, *again = job["resources"]
        assert (None in first[:2]) == (job["rule"] == "settings"), job["rule"]
        for factor, (more, longer, gpu) in zip((2, 4), again, strict=True):
            assert first[0] is None or more == factor * first[0], job["rule"]
            assert first[1] is None or longer == factor * first[1], job["rule"]
            assert gpu == first[2]
        on_gpu = work_of(job)[0] == "language_model_train"  # device is cuda, majority_device is cpu
        assert (first[2] or 0) == on_gpu, job["rule"]


def test_trainings_ask_for_minutes_by_their_steps():
    overlay = {"device": "cpu", "majority": {"d8": {"steps": 8000, "runs_per_job": 3}}}
    overlay["language_model"] = {"gpt": {"batch_size": 16, "steps": 50_000}, "bert": {"runs_per_job": "all"}}
    plan = planning.Plan(planning.configured(ROOT / "config.yaml", overlay))

    def first(plan, stage, group):
        jobs = next(jobs for jobs in plan.jobs(stage, "train") if group in jobs.groups)
        run = next(run for run in jobs.runs if run.group == group)
        named = {key: str(value) for key, value in plan.named(stage, run).items()}
        return jobs, named | ({"seeds": run.folder.rpartition("seeds_")[2]} if stage == "majority" else {})

    majority, d8 = first(plan, "majority", "d8")
    models, gpt = first(plan, "language_model", "gpt")
    assert majority.minutes(d8, 1) == 5 + 3 * 8000 / 100 / 60
    # Twice the time of 16 x 1,024 tokens: four layers of 32 hidden units, and 8,192 entries of size 8.
    step = 16 * 1024 * (4 * (3e-6 + 32 * 10e-9) + 8192 * 8 * 60e-12)
    asked = 5 + math.ceil(2 * 50_000 * step / 60)
    assert models.minutes(gpt, 1) == asked
    assert models.minutes(gpt, 3) == asked, "it goes on from its checkpoint"
    assert majority.minutes(d8, 3) == 4 * majority.minutes(d8, 1)
    assert (majority.submission(d8), models.submission(gpt)) == ("majority_train", None)
    berts, _ = first(plan, "language_model", "bert")
    steps = 2 * len(berts.runs) * plan.seconds("bert", plan.settings.language_model["bert"].steps[0])
    assert berts.in_one and berts.minutes({}, 1) == 5 + math.ceil(steps / 60), "one run after another"
    on_gpus = planning.Plan(
        planning.configured(ROOT / "config.yaml", overlay | {"device": "cuda"}), elsewhere=True
    )
    models, gpt = first(on_gpus, "language_model", "gpt")
    assert models.minutes(gpt, 1) == 5 + 50_000 * 0.03 / 60


@pytest.mark.parametrize(
    ("preset", "device", "most_units", "most_hours"),
    [(None, "cpu", 45, 25), ("paper", "cuda", 85, 65), ("paper", "auto", 115, 1700)],
    ids=["default", "paper on GPUs", "paper on processors"],
)
def test_a_cluster_gets_few_submissions_that_ask_for_realistic_times(preset, device, most_units, most_hours):
    """With one submission a job, and two to six hours each, there were 371 of them for paper.yaml, and 1,059 hours.

    On processors its trainings take some 800 core hours, and each fits the partition in profiles/slurm.
    """
    plan = planned([ROOT / f"workflow/presets/{preset}.yaml"] if preset else [], {"device": device})
    assert max(plan["minutes"]) <= 3 * 24 * 60
    rules = [job["rule"] for job in plan["jobs"]]
    assert rules.count("majority_train") > 50 and rules.count("language_model_train") > 50
    submitted = {job["unit"] for job in plan["jobs"] if job["rule"] not in ("settings", "download")}
    assert len(submitted) <= most_units
    assert sum(plan["minutes"][unit] for unit in submitted) / 60 <= most_hours
    long = [job for job in plan["jobs"] if (job["resources"][0][1] or 0) > planning.SHORT]
    alone = [job["unit"] for job in long]
    assert len(alone) == len({*alone}), "a long job has a submission of its own"


NAMES = {
    "language_model_train": ["initial.safetensors", "final.safetensors", "metrics.parquet"],
    "language_model_keys": ["keys.parquet", "tokens.parquet", "ones_share.parquet"],
    "language_model_ceilings": ["ceilings.parquet"],
    "language_model_activations": ["activations.safetensors"],
    "majority_train": ["metrics.parquet", "vectors.parquet", "weights.safetensors"],
    "pretrained_measure": {name: f"{name}.parquet" for name in ("attention_ceilings", "ones_share")},
    "random_keys_table": {"norms": "random_keys.parquet", "precision": "random_keys_precision.parquet"},
    "geometry": {"measured": "geometry.parquet", "cloud": "geometry_cloud.parquet"},
    "score_scale": {"vectors": "majority_vectors.parquet"},
}
"""The file behind each name that a rule gives to an input or output; of jobs for runs, those of a run in order."""


def folder_of(run):
    """The folder of the files of a run or batch below results/smoke/runs/<stage>/."""
    rate = f"base_learning_rate_{run['base_learning_rate']}"
    if "experiment" in run:
        batch = f"seeds_{run['seeds'][0]}_to_{run['seeds'][-1]}"
        return f"{run['experiment']}/{run['variant']}/d_model_{run['d_model']}/{rate}/{batch}"
    return f"{run['model']}/{run['variant']}/{rate}/steps_{run['steps']}/seed_{run['seed']}"


def test_each_file_is_the_one_that_its_name_means(jobs, settings):
    for job in jobs:
        work, group = work_of(job)
        if work is None:
            given, wanted = job["inputs"] | job["outputs"], NAMES.get(job["rule"], {})
            assert {name: Path(given[name]).name for name in wanted} == wanted, job["rule"]
            continue
        stage = "majority" if work == "majority_train" else "language_model"
        folders = [f"results/smoke/runs/{stage}/{folder_of(run)}" for run in runs_of(job, settings)]
        names = [Path(files[0]).name for files in job["outputs"].values()]
        assert names == NAMES[work]
        weights = {} if work.endswith("_train") else {name: f"{name}.safetensors" for name in WEIGHTS[work]}
        for files, name in [*zip(job["outputs"].values(), names, strict=True)] + [
            (job["inputs"][key], name) for key, name in weights.items()
        ]:
            assert files == [f"{folder}/{name}" for folder in folders]
        if stage == "language_model":
            text = settings["language_model"][group]["text"]
            assert {Path(file).parent.name for file in job["input"] if "/data/text/" in file} == {text}
        else:
            data = f"results/smoke/data/majority/{group}"
            assert job["input"] == [f"{data}/seed_{seed}.parquet" for seed in job["params"]["seeds"]]


WEIGHTS = {
    "language_model_keys": ["initial", "final"],
    "language_model_ceilings": ["initial", "final"],
    "language_model_activations": ["final"],
}
"""The weights that a job reads of each of its runs."""


COLLECTED = {
    "language_model_metrics": "metrics",
    "key_selectability": "keys",
    "sentence_tokens": "tokens",
    "language_model_ones_share": "ones_share",
    "language_model_ceilings": "ceilings",
    "majority_metrics": "metrics",
    "majority_vectors": "vectors",
}
"""The file of a run from which each table is put together; of the others it has the name of the table."""


def test_each_table_is_put_together_from_the_files_of_its_runs(jobs, settings):
    for job in (job for job in jobs if job["rule"] == "tables"):
        table, files = job["wildcards"]["table"], job["input"]
        assert {Path(file).stem for file in files} == {COLLECTED.get(table, table)}
        assert len(set(files)) == len(files) == len(job["params"]["identities"]), table
        stage = Path(files[0]).parts[3]
        part = settings["statements"] if stage == "placement" else settings
        assert job["params"]["settings"] == part[stage], table
        for file, identity in zip(files, job["params"]["identities"], strict=True):
            assert stage != "pretrained" or identity["settings"] == part[stage][identity["model"]], table
            group = identity.get("experiment") or identity.get("model") or identity["placement"]
            assert f"runs/{stage}/{group}/" in file and identity.get("variant", group) in file
            run = identity.get("seeds") if stage == "majority" else None
            assert not run or f"seeds_{run[0]}_to_{run[-1]}/" in file


def test_an_edit_of_the_code_that_computes_makes_a_result_again(jobs, settings):
    (page,) = (job for job in jobs if job["rule"] == "page")
    found = planning.rooms(planning.figures.figures(settings), [*page["params"]["tables"]][1:])
    modules = {f"draw_{room.name}": room.modules for room in found}
    modules |= {"durations": planning.DURATIONS.modules, "page": planning.table_modules()}
    scripts = {(job["rule"], job["script"], job["params"]["code"]) for job in jobs}
    assert len(scripts) == len({job["rule"] for job in jobs}), "all jobs of a rule have the code of that rule"
    for rule, script, code in scripts:
        more = (ROOT / "src/layernorm_roles" / module for module in modules.get(rule, ()))
        assert code == code_version(ROOT / "workflow/scripts" / script, *more), rule


def test_every_figure_and_readable_table_is_drawn_in_one_room():
    plan = planning.Plan(planning.configured(ROOT / "config.yaml", {}))
    inputs = {name for table in planning.tables.TABLES.values() for name in table.inputs}
    rooms = planning.rooms(plan.figures(), inputs)
    assert sorted(name for room in rooms for name in room.figures) == sorted(plan.figures())
    assert sorted(name for room in rooms for name in room.tables) == sorted(planning.tables.TABLES)
    files = [file for room in rooms for file in room.files("x")]
    assert len({*files}) == len(files)
    for room in rooms:
        for module in room.modules:
            assert (ROOT / "src/layernorm_roles" / module).is_file()


def test_what_is_wrong_with_partitions_is_said_in_one_line():
    fault = planning.partition_fault
    assert fault("p.yaml", ["cpu", "gpu"], ["cpu", "gpu", "debug"], []) is None
    assert fault("p.yaml", ["cpu", "gpu"], None, []) is None
    assert fault("p.yaml", ["cpu", "gpus"], ["debug", "cpu"], ["text"]) == (
        "p.yaml: the cluster has no partition gpus; sinfo knows cpu, debug"
    )
    assert fault("p.yaml", ["cpu"], ["cpu"], ["text", "page"]).startswith(
        "p.yaml: no partition allows what page, text"
    )

"""Valid files of another run, put where a reader expects its own: every reader names the file and what is wrong."""

import copy
import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import ROOT
from hand_made import SMALL_GPT, changed, contexts, prepared_text, run_of

from layernorm_roles import checkpoint, files, planning, store, variants
from layernorm_roles.language_model import runs as language_runs
from layernorm_roles.language_model.activations import record_run
from layernorm_roles.language_model.train import Outputs, TrainingResult
from layernorm_roles.language_model.train import write as write_run
from layernorm_roles.majority import data, train
from layernorm_roles.provenance import provenance
from layernorm_roles.settings.majority import MajorityTraining
from layernorm_roles.statements import fusion, score_scale

FEW = {"sequences": 20, "labellings": 1, "batch_size": 10, "steps": 1, "schedule_steps": 8, "d_ff": None}
NONE = dict.fromkeys((*variants.VARIANTS, *variants.SPLIT_VARIANTS), 0)
SETTINGS = {
    "name": "swapped",
    "majority": {
        "only": ["d8", "widths"],
        "d8": FEW | {"seeds": NONE | {"layernorm": 2, "scale_released": 1}},
        "widths": FEW
        | {"like": "d8", "d_model": [3, 5], "learning_rate": [0.01, 0.1], "seeds": NONE | {"layernorm": 1}},
    },
}
EDITED = copy.deepcopy(SETTINGS) | {"name": "edited"}
EDITED["majority"]["d8"]["steps"] = 2
"""Another reproduction whose files of d8 have other settings."""


def one_row(names, **integers):
    """A table of one row, with a number in each of the named columns."""
    return pd.DataFrame([dict.fromkeys(names.split(), 0.5) | integers])


METRICS = one_row(
    "train_loss test_loss test_accuracy query_angle_mean query_angle_std learning_rate attention_share score_std",
    step=0,
)
LOSSES = one_row("train_loss valid_loss unigram_loss learning_rate seconds", step=0, tokens=0)
VECTORS = pd.DataFrame({"checkpoint": ["initial"], "token": [0], "kind": ["key"], "vector": [[1.0, 2.0]]})


def planned(settings):
    return planning.Plan(planning.configured(ROOT / "config.yaml", settings))


@pytest.fixture(scope="module")
def majority(tmp_path_factory):
    """The data and the metrics of every run of two reproductions, by the folder of the run."""
    folder, made = tmp_path_factory.mktemp("majority"), {}
    for number, plan in enumerate(map(planned, (SETTINGS, EDITED))):
        batches = plan.batches()
        for batch, identity in zip(batches, plan.identities("majority", batches), strict=True):
            (run,) = batch.runs
            settings = MajorityTraining.model_validate(plan.run_settings("majority", run.group))
            norm = plan.settings.norm_class(run.variant)
            its = train.MajorityRun(run.group, run.variant, norm, run.seed, **dict(run.point))
            assert train.batch_identity(settings, [its]) == identity, "the rule and the job mean the same run"
            place = folder / str(number) / batch.folder
            paths = train.Outputs(*(place / name for name in ("m.parquet", "v.parquet", "w")))
            data.write(settings, run.seed, place / "d.parquet")
            width, norm_class = settings.d_ff or its.d_model, its.norm
            model = train.MajorityTransformer(settings.classes, its.d_model, width, norm_class)
            result = train.TrainedRun(METRICS, VECTORS, model)
            train.write({its: result}, settings, "cpu", paths)
            made[number, run] = (paths, identity, its, settings)
    return made


def copied(file: Path, to: Path) -> Path:
    """`file` with its checksum at the place `to`, as someone who copies a results folder copies both."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to)
    files.replace_text(files.checksum_file(to), f"{files.sha256_of(to)}  {to.name}\n")
    return to


def test_no_table_takes_the_file_of_another_run(majority, tmp_path):
    for kind, field in (("metrics", "metrics"), ("vectors", "vectors")):
        tried = 0
        for one, other in itertools.permutations(majority, 2):
            identity, file = majority[one][1], getattr(majority[other][0], field)
            place = copied(file, tmp_path / "runs" / f"{kind}.parquet")
            if majority[other][1] == identity:  # equal settings in both reproductions
                store.read(place, f"majority_{kind}", identity)
                continue
            with pytest.raises(ValueError, match=rf"{place}: a file of another run \(.*expected") as error:
                store.collect([place], f"majority_{kind}", tmp_path / "out.parquet", {}, [identity])
            assert "\n" not in str(error.value) and not (tmp_path / "out.parquet").exists()
            tried += 1
        assert tried > 100


def test_no_training_takes_the_data_of_another_seed_or_other_settings(majority, tmp_path):
    (paths, _, run, settings), (others, *_) = (
        entry for (number, its), entry in majority.items() if number == 0 and its.group == "d8"
        and its.variant == "layernorm"
    )  # fmt: skip
    own, other = (each.metrics.with_name("d.parquet") for each in (paths, others))
    with pytest.raises(ValueError, match=r"data\.parquet: .* another run \(seed = 1001, expected 1000\)"):
        train.train_batch(settings, {run: copied(other, tmp_path / "data.parquet")}, paths, "cpu", None)
    with pytest.raises(ValueError, match=r"sequences = 20, expected 30"):
        data.load(own, data.identity_of(settings.model_copy(update={"sequences": 30}), 1000))


@pytest.fixture(scope="module")
def language_models(tmp_path_factory):
    """Runs of language models that differ in one thing each, with the folder of their files."""
    folder, made = tmp_path_factory.mktemp("models"), []
    text = prepared_text(folder / "text", range(100), range(100), contexts(("long", range(9))))
    runs = [
        run_of(text),
        run_of(text, seed=1),
        run_of(text, variant="projection"),
        run_of(text, model="other"),
    ]
    for number, run in enumerate([*runs, run_of(text, changed(SMALL_GPT, steps=41))]):
        place, weights = folder / str(number), run.build_model().state_dict()
        names = ("initial.safetensors", "final.safetensors", "metrics.parquet", "checkpoint.safetensors")
        out = Outputs(*(place / name for name in names))
        write_run(TrainingResult(weights, weights, LOSSES), run, out, provenance(run.identity, "cpu"))
        record_run(run, out.final, place / "activations.safetensors", 1, 1, 1)
        made.append((run, place))
    return made


def test_no_job_takes_the_weights_metrics_or_activations_of_another_language_model(language_models, tmp_path):
    for (run, _), (_, place) in itertools.permutations(language_models, 2):
        readers = {
            "initial.safetensors": lambda path, run=run: run.restore_model(path, "initial"),
            "final.safetensors": lambda path, run=run: run.restore_model(path, "final"),
            "activations.safetensors": lambda path, run=run: list(fusion.trained_blocks(path, run.identity)),
            "metrics.parquet": lambda path, run=run: store.collect(
                [path], "language_model_metrics", tmp_path / "out", {}, [run.identity]
            ),
        }
        for name, read in readers.items():
            with pytest.raises(ValueError, match=rf"{name}: a file of another run \(.*expected"):
                read(place / name)
    assert not (tmp_path / "out").exists()
    for run, place in language_models:
        assert run.restore_model(place / "final.safetensors") is not None
        assert list(score_scale.language_model_heads(place / "activations.safetensors", run.identity))
        assert len(store.read(place / "metrics.parquet", "language_model_metrics", run.identity))


def test_no_job_takes_initial_for_final_weights(language_models):
    run, place = language_models[0]
    with pytest.raises(ValueError, match="checkpoint = 'initial', expected 'final'"):
        run.restore_model(place / "initial.safetensors", "final")


def test_what_the_rules_expect_of_a_language_model_is_what_its_files_have(language_models):
    plan = planned({"name": "rules"})
    runs = plan.judged_runs()
    for run, identity in zip(runs, plan.identities("language_model", runs), strict=True):
        assert identity["model"] == run.group and identity["seed"] == run.seed
        assert {*identity, "text"} == {*language_models[0][0].identity}
        settings = language_runs.SETTINGS[identity["settings"]["architecture"]]
        assert {*identity["settings"]} == {*settings.model_fields} - {"learning_rate", "steps"}


def test_a_file_that_says_nothing_of_itself_is_refused(tmp_path):
    frame = pd.DataFrame({"split": ["train"], "label": [0], "counts": [np.ones(3, np.uint8)]})
    store.write(frame, "majority_data", tmp_path / "d.parquet", provenance({}, "cpu"))
    with pytest.raises(ValueError, match="no seed, expected 3"):
        store.read(tmp_path / "d.parquet", "majority_data", {"seed": 3})
    checkpoint.save({"a": torch.ones(1)}, tmp_path / "w", {})
    with pytest.raises(ValueError, match="no seed, expected 3"):
        checkpoint.load(tmp_path / "w", {"seed": 3})

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

from layernorm_roles import checkpoint, files, planning, store, variants
from layernorm_roles.majority import data, train
from layernorm_roles.provenance import provenance
from layernorm_roles.settings.majority import MajorityTraining

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


def test_a_file_that_says_nothing_of_itself_is_refused(tmp_path):
    frame = pd.DataFrame({"split": ["train"], "label": [0], "counts": [np.ones(3, np.uint8)]})
    store.write(frame, "majority_data", tmp_path / "d.parquet", provenance({}, "cpu"))
    with pytest.raises(ValueError, match="no seed, expected 3"):
        store.read(tmp_path / "d.parquet", "majority_data", {"seed": 3})
    checkpoint.save({"a": torch.ones(1)}, tmp_path / "w", {})
    with pytest.raises(ValueError, match="no seed, expected 3"):
        checkpoint.load(tmp_path / "w", {"seed": 3})

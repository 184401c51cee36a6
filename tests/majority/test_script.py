"""What the script of the rule majority_train gives to the training of each batch of its job."""

import runpy
from types import SimpleNamespace

from default_settings import ROOT
from snakemake.iocontainers import InputFiles, OutputFiles, Params, Wildcards

from layernorm_roles import planning
from layernorm_roles.majority import train


def test_each_batch_has_its_seeds_data_files_and_the_code_of_its_norm(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(train, "train_batch", lambda *arguments: called.append(arguments))
    data = [tmp_path / f"seed_{seed}.parquet" for seed in (3, 4, 5)]
    for file in data:
        file.touch()
    point = {"experiment": "d8", "d_model": 7, "base_learning_rate": 0.5}
    runs = [{**point, "variant": "mine", "seeds": [3, 4]}, {**point, "variant": "scale", "seeds": [5]}]
    settings = planning.configured(ROOT / "config.yaml", {}).majority["d8"].of_training()
    params = {"settings": settings, "runs": runs, "seeds": [3, 4, 5], "code": "a", "device": "cpu"}
    params |= {"norms": {"mine": "m:M", "scale": "scale"}, "norm_code": {"mine": "b", "scale": None}}
    inputs, outputs = InputFiles(map(str, data)), OutputFiles()
    inputs._set_name("data", 0, end=3)
    for name in ("metrics", "vectors", "weights"):
        outputs.extend(str(tmp_path / f"{name}_{number}") for number in range(2))
        outputs._set_name(name, len(outputs) - 2, end=len(outputs))
    job = SimpleNamespace(
        rule="majority_train",
        log=[str(tmp_path / "logs/log")],
        wildcards=Wildcards(fromdict={}),
        params=Params(fromdict=params | {"device_check": "warn"}),
        input=inputs,
        output=outputs,
    )
    runpy.run_path(str(ROOT / "workflow/scripts/train_majority.py"), {"snakemake": job})
    norms, code = {3: "m:M", 4: "m:M", 5: "scale"}, [["a", "b"], ["a", None]]
    for number, (given, of_batch, out, device, its_code, check) in enumerate(called):
        assert given.model_dump(mode="json") == settings and (device, check) == ("cpu", "warn")
        assert its_code == code[number]
        assert out == tuple(str(tmp_path / f"{name}_{number}") for name in train.Outputs._fields)
        for run, file in of_batch.items():
            assert run == train.MajorityRun("d8", runs[number]["variant"], norms[run.seed], run.seed, 7, 0.5)
            assert file == str(tmp_path / f"seed_{run.seed}.parquet")
    assert [[run.seed for run in arguments[1]] for arguments in called] == [[3, 4], [5]]

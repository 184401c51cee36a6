"""What a user is told about every way in which a GPU cannot be used, and what `auto` makes of it."""

import subprocess
import sys

import pytest
import torch

from layernorm_roles.gpu import choice, driver


def test_the_installed_build_is_read_without_importing_torch():
    build = driver.torch_build()
    assert build.version == torch.__version__
    assert build.cuda == (tuple(map(int, torch.version.cuda.split("."))) if torch.version.cuda else None)
    program = "import sys; from layernorm_roles.gpu import choice; choice.choose('auto'); "
    program += "assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_cards_that_fit_are_named(fake_driver, build_of_torch):
    fake_driver([90, 61, 80], version=13020)
    build_of_torch()
    assert driver.ask_driver().cuda == (13, 2)
    cards = driver.usable_cards()
    assert [(card.index, card.capability) for card in cards] == [(0, (9, 0)), (2, (8, 0))]
    assert {card.name for card in cards} == {"Fake H100"}
    assert [card.identity for card in cards] == ["0a" * 16, "0c" * 16]


OLD_DRIVER = (
    r"the NVIDIA driver serves CUDA up to 12\.4; update the driver, or `pip install torch==2\.13\.0\+cu126 --index-url "
    r"\S+` .*cuda-compat-13-0, and `export LD_LIBRARY_PATH=/usr/local/cuda-13\.0/compat`$"
)
OLD_CARD = (
    r"has compute capability 6\.1, .* kernels for 7\.5 and newer; `pip install torch==2\.13\.0\+cu126 --index-url \S+` "
    r"\(CUDA 12\.6, compute capability 5\.0 to 9\.0\)$"
)
FAULTS = [
    # the driver, the build of torch, the environment, what is said
    (
        {},
        ("2.13.0+cpu", None),
        {},
        r"a build without CUDA; install one with CUDA: https://\S+, version 2\.13\.0$",
    ),
    ({"version": 12040}, (), {}, OLD_DRIVER),
    ({"capabilities": [61]}, (), {}, OLD_CARD),
    ({"init": 100}, (), {}, "no GPU to this process: there is none, or this process may not"),
    ({"init": 100}, (), {"SLURM_JOB_ID": "7"}, "shows no GPU to this job: SLURM gave it none"),
    ({"capabilities": []}, (), {"CUDA_VISIBLE_DEVICES": ""}, "because CUDA_VISIBLE_DEVICES = ''$"),
    ({"init": 803}, (), {}, r"does not start: error 803 of cuInit, its library and its"),
    ({"init": 1}, (), {}, r"does not start: error 1 of cuInit \(`nvidia-smi` may say more\)$"),
    ({}, (), {driver.TF32_OVERRIDE: "1"}, f"{driver.TF32_OVERRIDE} = '1' in the environment: .*TF32; `unset"),
]


@pytest.mark.parametrize(("library", "build", "environment", "message"), FAULTS)
def test_what_is_the_matter_and_what_to_do(
    library, build, environment, message, fake_driver, build_of_torch, monkeypatch
):
    """`auto` gives it as its reason for the CPU, and `cuda` is refused with it."""
    fake_driver(**library)
    build_of_torch(*build)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(driver.NoGPU, match=message) as refused:
        driver.usable_cards()
    assert choice.choose("auto") == ("cpu", str(refused.value))
    assert choice.choose("cuda") == ("cuda", "")


def test_without_a_driver(no_driver, build_of_torch):
    build_of_torch()
    device, why = choice.choose("auto")
    assert device == "cpu"
    assert why.startswith("there is no NVIDIA driver: libcuda.so.1 cannot be loaded")


def test_a_driver_for_cuda_11_runs_no_build_so_none_is_named(fake_driver, build_of_torch):
    fake_driver(version=11080)
    build_of_torch()
    with pytest.raises(
        driver.NoGPU, match=r"CUDA up to 11\.8; update the driver; a data-centre card may keep"
    ):
        driver.usable_cards()


@pytest.mark.parametrize(
    ("cuda", "capability", "fits"),
    [("12.6", 61, True), ("12.8", 61, False), ("12.8", 70, True), ("13.0", 70, False), ("13.0", 120, True)],
)
def test_old_cards_fit_old_builds(cuda, capability, fits, fake_driver, build_of_torch):
    fake_driver([capability])
    build_of_torch(f"2.13.0+cu{cuda.replace('.', '')}", cuda)
    assert (choice.choose("auto").device == "cuda") == fits


def test_an_override_that_is_off_does_not_count(fake_driver, build_of_torch, monkeypatch):
    fake_driver()
    build_of_torch()
    for value in ("", "0"):
        monkeypatch.setenv(driver.TF32_OVERRIDE, value)
        assert choice.choose("auto").device == "cuda"


def test_what_auto_meant_at_the_start_holds_in_every_job(fake_driver, build_of_torch, no_driver, monkeypatch):
    build_of_torch()
    choice.hand_down(choice.choose("auto"))
    fake_driver()  # a job may see what the first process has not seen
    assert choice.choose("auto").device == "cpu"
    monkeypatch.delenv(choice.DECIDED)
    choice.hand_down(choice.choose("cpu"))
    assert choice.choose("auto").device == "cuda"


def test_jobs_on_other_machines_train_on_the_cpu_unless_the_configuration_says_cuda(
    fake_driver, build_of_torch
):
    fake_driver()
    build_of_torch()
    assert choice.choose("cuda", elsewhere=True).device == "cuda"
    device, why = choice.choose("auto", elsewhere=True)
    assert device == "cpu"
    assert "device: cuda asks for them" in why


def test_a_driver_serves_builds_for_newer_minor_versions_of_its_cuda(fake_driver, build_of_torch):
    fake_driver(version=13000)
    build_of_torch("2.13.0+cu132", "13.2")
    assert choice.choose("auto").device == "cuda"


def test_the_reason_for_the_gpu_counts_cards_and_names_each_kind_once(fake_driver, build_of_torch):
    fake_driver([90, 61, 80])
    build_of_torch()
    assert choice.choose("auto") == ("cuda", "2 can be used: Fake H100")

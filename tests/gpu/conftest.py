"""A driver that is none, and builds of torch that are a version file, for tests on a machine without a GPU."""

import importlib.util
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from layernorm_roles.gpu import choice, driver, recording

SOURCE = """
#include <string.h>
int cuInit(unsigned flags) {{ return {init}; }}
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuDeviceGetCount(int *count) {{ *count = {count}; return 0; }}
int cuDeviceGet(int *device, int index) {{ *device = 10 + index; return 0; }}
int cuDeviceGetName(char *name, int size, int device) {{ strcpy(name, "Fake H100"); return 0; }}
int cuDeviceGetUuid(char *uuid, int device) {{ memset(uuid, device, 16); return 0; }}
int cuDeviceGetAttribute(int *value, int attribute, int device)
{{
    static int capability[] = {{ {capability} }};
    *value = attribute == 75 ? capability[device - 10] / 10 : attribute == 76 ? capability[device - 10] % 10 : -1;
    return 0;
}}
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """Nothing in the environment, and nothing that another test has left, speaks for or against a GPU."""
    for name in (driver.TF32_OVERRIDE, choice.DECIDED, "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(recording, "_taken", {})


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARIES", ("libcuda_that_is_not_there.so.1",))


@pytest.fixture
def fake_driver(tmp_path, monkeypatch):
    """A function that puts a compiled libcuda in the place of the driver's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for the stand-in of the driver's library")

    def make(capabilities=(90,), version=13000, init=0):
        values = {"init": init, "version": version, "count": len(capabilities)}
        source = SOURCE.format(**values, capability=", ".join(map(str, capabilities or (0,))))
        name = f"fake_cuda_{len(list(tmp_path.glob('*.so')))}"
        (tmp_path / f"{name}.c").write_text(source)
        library = tmp_path / f"{name}.so"
        subprocess.check_call([compiler, "-w", "-shared", "-fPIC", "-o", library, tmp_path / f"{name}.c"])
        monkeypatch.setattr(driver, "LIBRARIES", ("not_there.so", str(library)))

    return make


@pytest.fixture
def build_of_torch(tmp_path, monkeypatch):
    """A function that lets torch's version file say another version of torch and CUDA."""

    def make(version="2.13.0+cu130", cuda="13.0"):
        file = tmp_path / "torch" / "__init__.py"
        file.parent.mkdir(exist_ok=True)
        file.with_name("version.py").write_text(
            f"from typing import Optional\n\n__version__ = '{version}'\ndebug = False\n"
            f"cuda: Optional[str] = {cuda!r}\ngit_version = 'cf30153'\nhip: Optional[str] = None\n"
        )
        find = importlib.util.find_spec
        spec = SimpleNamespace(origin=str(file))
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *rest: spec if name == "torch" else find(name, *rest)
        )

    return make

"""What NVIDIA's driver and the build of torch say about the GPUs here, in milliseconds.

The driver's own library, libcuda, is asked through ctypes, and torch's build is read from its version file: neither
torch nor CUDA's runtime is loaded, since Snakemake asks whenever it plans.
"""

import ctypes
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

Version = tuple[int, int]
"""A version of CUDA, or the compute capability of a GPU: major and minor number."""

LIBRARIES = ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")
"""Names under which the driver's library is looked for; the second is that of the Windows subsystem for Linux."""

OLDEST_CAPABILITY: Mapping[Version, Version] = {
    (12, 0): (5, 0),
    (12, 8): (7, 0),
    (13, 0): (7, 5),
}
"""The oldest compute capability for which torch's builds have kernels, from the named version of CUDA on.

A build of one's own may have fewer: `device.GPU` tries a kernel where the job runs."""

OLDER = (12, 6)
"""The older version of CUDA for which torch is built as well, until 2.14: it runs on all drivers for CUDA 12, and has
kernels for cards that CUDA 13 has dropped (https://github.com/pytorch/pytorch/blob/main/RELEASE.md)."""

TF32_OVERRIDE = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
"""The environment variable with which torch rounds products of float32 to TF32, whatever a program asks for."""

_NO_DEVICE = 100
_MEANINGS = {
    3: "it was not initialised",
    802: "the cards are not ready yet",
    803: "its library and its kernel module have different versions; restart the machine",
    804: "its library is newer than the kernel module allows on this card",
    999: "unknown; often the kernel module is not loaded",
}
"""What a status of cuInit means, in words."""
_MAJOR, _MINOR = 75, 76
"""Numbers of the attributes of a device that hold its compute capability."""


class NoGPU(ValueError):
    """No GPU can be used here; the message says what is the matter and what to do."""


class Card(NamedTuple):
    """A GPU that the driver shows to this process."""

    index: int
    """Its number among the GPUs that this process sees, as in torch's "cuda:0"."""
    name: str
    capability: Version
    """Its compute capability."""
    identity: str
    """What tells it from the machine's other GPUs in every process: its UUID, or its number where there is none."""


class Driver(NamedTuple):
    """NVIDIA's driver."""

    cuda: Version
    """The newest version of CUDA that it serves."""
    cards: tuple[Card, ...]
    """The GPUs that it shows to this process, at least one."""


class Build(NamedTuple):
    """The installed build of torch."""

    version: str
    cuda: Version | None
    """The version of CUDA that it is built for, None without CUDA."""


def usable_cards() -> tuple[Card, ...]:
    """The GPUs that this process can train on, at least one.

    Raises NoGPU if torch's build, the driver, the environment or every card speaks against it.
    """
    build = torch_build()
    if build.cuda is None:
        raise NoGPU(
            f"torch {build.version} is a build without CUDA; install one with CUDA: "
            f"https://pytorch.org/get-started/locally, version {build.version.partition('+')[0]}"
        )
    if os.environ.get(TF32_OVERRIDE, "0") not in ("", "0"):  # as NVIDIA's containers have it
        raise NoGPU(
            f"{TF32_OVERRIDE} = {os.environ[TF32_OVERRIDE]!r} in the environment: products of float32 would be "
            f"rounded to the ten bits of TF32; `unset {TF32_OVERRIDE}` (containers of NVIDIA set it)"
        )
    driver = ask_driver()
    if driver.cuda[0] < build.cuda[0]:
        older = f", or {_older(build)}" if driver.cuda[0] == OLDER[0] else ""
        raise NoGPU(
            f"torch {build.version} is built for CUDA {_text(build.cuda)}, and the NVIDIA driver serves CUDA up to "
            f"{_text(driver.cuda)}; update the driver{older}; a data-centre card may keep its driver: "
            f"install NVIDIA's package cuda-compat-{build.cuda[0]}-{build.cuda[1]}, and "
            f"`export LD_LIBRARY_PATH=/usr/local/cuda-{_text(build.cuda)}/compat`"
        )
    oldest = max(needed for cuda, needed in OLDEST_CAPABILITY.items() if cuda <= build.cuda)
    cards = tuple(card for card in driver.cards if card.capability >= oldest)
    if not cards:
        card = driver.cards[0]
        raise NoGPU(
            f"{card.name} has compute capability {_text(card.capability)}, and torch {build.version} has kernels for "
            f"{_text(oldest)} and newer; {_older(build)}"
        )
    return cards


def ask_driver() -> Driver:
    """The version of the driver, and the GPUs that it shows to this process. Raises NoGPU if there is none."""
    library = _library()
    status = library.cuInit(0)
    count = ctypes.c_int()
    if status == 0:
        status = library.cuDeviceGetCount(ctypes.byref(count))
    if status == _NO_DEVICE or (status == 0 and count.value == 0):
        raise NoGPU(_nothing_shown())
    if status != 0:
        raise NoGPU(
            f"the NVIDIA driver does not start: error {status} of cuInit"
            f"{', ' + _MEANINGS[status] if status in _MEANINGS else ''} (`nvidia-smi` may say more)"
        )
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    cards = tuple(_card(library, index) for index in range(count.value))
    return Driver((version.value // 1000, version.value % 1000 // 10), cards)


def torch_build() -> Build:
    """The installed build of torch, from its file version.py. Raises NoGPU if torch is not installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise NoGPU("torch is not installed; see the README")
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    values = dict(re.findall(r"^(__version__|cuda)\b[^=\n]*= *'([^']*)'", text, re.MULTILINE))
    major, _, minor = values.get("cuda", "").partition(".")
    cuda = (int(major), int(minor.partition(".")[0] or 0)) if major else None
    return Build(values.get("__version__", "of unknown version"), cuda)


def _library() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoGPU(
        "there is no NVIDIA driver: libcuda.so.1 cannot be loaded; install the driver if there is a GPU"
    )


def _card(library: ctypes.CDLL, index: int) -> Card:
    device, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    library.cuDeviceGet(ctypes.byref(device), index)
    capability = []
    for attribute in (_MAJOR, _MINOR):
        library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability.append(value.value)
    library.cuDeviceGetName(name, len(name), device)
    uuid = ctypes.create_string_buffer(16)
    identity = uuid.raw.hex() if library.cuDeviceGetUuid(uuid, device) == 0 else str(index)
    return Card(index, name.value.decode(errors="replace") or f"GPU {index}", tuple(capability), identity)


def _nothing_shown() -> str:
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return f"the NVIDIA driver shows no GPU to this process, because CUDA_VISIBLE_DEVICES = {shown!r}"
    if "SLURM_JOB_ID" in os.environ:
        return "the NVIDIA driver shows no GPU to this job: SLURM gave it none (see profiles/slurm/README.md)"
    return "the NVIDIA driver shows no GPU to this process: there is none, or this process may not use it"


def _older(build: Build) -> str:
    """The command that installs the same torch for an older CUDA."""
    name = f"cu{OLDER[0]}{OLDER[1]}"
    version = f"{build.version.partition('+')[0]}+{name}"
    return (
        f"`pip install torch=={version} --index-url https://download.pytorch.org/whl/{name}` (CUDA {_text(OLDER)}, "
        "compute capability 5.0 to 9.0)"
    )


def _text(version: Version) -> str:
    return ".".join(map(str, version))

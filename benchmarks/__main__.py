"""All benchmarks, one after the other; their tables with the hardware.

    python benchmarks [--authors CLONE] [--grivas CLONE] [--write]        half an hour on two cores
    python benchmarks --gpu [--write]                                     on a GPU instead of the CPU

--write puts each table into benchmarks/README.md, below its title, and leaves the others there as they are. An
otherwise idle machine is needed.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

from layernorm_roles.gpu.device import open_device

HERE = Path(__file__).parent
ON_CPU = {
    "majority.py": "The majority step",
    "language_model.py": "The language model's step",
    "selectability.py": "Verdicts and ceilings",
    "overhead.py": "Many short jobs",
}
ON_GPU = {"first_hour.py": "The first hour of a card", "gpu.py": "The paper's preset on a GPU"}
"""Scripts, with the titles of their tables on the page."""
TAKE = {
    "authors": ("majority.py", "selectability.py"),
    "grivas": ("selectability.py",),
}
"""The scripts that take a clone of others' repositories."""


def hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def measured(script: str, clones: dict[str, Path | None]) -> str:
    """What a script prints. `clones` of others' repositories are timed beside ours."""
    named = [(f"--{name}", str(clone)) for name, clone in clones.items() if clone and script in TAKE[name]]
    print(f"{script} ...", file=sys.stderr, flush=True)
    command = [sys.executable, HERE / script, *(word for pair in named for word in pair)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{script} failed")
    return done.stdout.strip()


def replaced(page: str, title: str, text: str) -> str:
    """The page with this text below a title, in the place of what stood there; ValueError if there is no such title."""
    before, found, after = page.partition(f"\n## {title}\n")
    if not found:
        raise ValueError(f"the page has no title {title}")
    _, following, rest = after.partition("\n## ")
    return f"{before}{found}\n{text}\n{following}{rest}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--authors", type=Path, metavar="CLONE", help="clone of the authors' repository")
    parser.add_argument(
        "--grivas", type=Path, metavar="CLONE", help="clone of unargmaxable, of Grivas et al."
    )
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*ON_CPU, *ON_GPU],
        metavar="SCRIPT",
        help="these alone, such as majority.py",
    )
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    options = parser.parse_args()
    titles, machine, page = ON_GPU if options.gpu else ON_CPU, hardware(), HERE / "README.md"
    if options.gpu:
        try:
            machine = f"{open_device('cuda').description}; {machine}"
        except ValueError as fault:
            sys.exit(f"--gpu: {fault}")
    for script, title in titles.items():
        if script in (options.only or titles):
            found = measured(script, {name: getattr(options, name) for name in TAKE})
            text = f"{machine}, Python {platform.python_version()}.\n\n{found}"
            print(f"## {title}\n\n{text}\n", flush=True)
            if options.write:
                page.write_text(replaced(page.read_text("utf-8"), title, text), "utf-8")


if __name__ == "__main__":
    main()

"""All benchmarks, one after the other; their tables with the hardware.

    python benchmarks [--authors CLONE] [--grivas CLONE] [--write]        half an hour on two cores
    python benchmarks --gpu [--write]                                     on a GPU instead of the CPU

--write keeps them in benchmarks/README.md, where each of the two has a place of its own: what the other measured last
stays, and with --only the tables of other scripts. An otherwise idle machine is needed.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from layernorm_roles.gpu.device import open_device

HERE = Path(__file__).parent


class Run(NamedTuple):
    """What one command measures: a part of the page, between its mark and the next."""

    options: str
    """Options of the command that measures it."""
    parts: dict[str, str]
    """From titles to scripts."""

    @property
    def mark(self) -> str:
        """The line of the page below which the part begins."""
        command = " ".join(["python benchmarks", *filter(None, [self.options]), "--write"])
        return f"{MARKED} `{command}` replaces what follows, up to the next such line -->"


MARKED = "<!-- measured:"
"""How the marks of the page begin."""
RUN = Run(
    "",
    {
        "The majority step": "majority.py",
        "The language model's step": "language_model.py",
        "Verdicts": "selectability.py",
        "Vocabularies and long contexts": "large.py",
        "Ceilings": "ceilings.py",
        "Many short jobs": "overhead.py",
    },
)
ON_GPU = Run("--gpu", {"The first hour of a card": "first_hour.py", "The paper's preset on a GPU": "gpu.py"})
TAKE = {
    "authors": ("majority.py", "selectability.py", "large.py"),
    "grivas": ("selectability.py", "large.py"),
}
"""The scripts that take a clone of others' repositories."""


def hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def measured(run: Run, machine: str, clones: dict[str, Path], only: list[str]) -> dict[str, str]:
    """Measure a run, or the scripts `only` of it: from titles to tables, with the hardware above each.

    `clones` of others' repositories are timed beside ours.
    """
    found = {}
    for title, script in run.parts.items():
        if only and script not in only:
            continue
        named = [(f"--{name}", str(clone)) for name, clone in clones.items() if script in TAKE[name]]
        print(f"{script} ...", file=sys.stderr, flush=True)
        command = [sys.executable, HERE / script, *(word for pair in named for word in pair)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}\n{script} failed")
        found[title] = f"{machine}, Python {platform.python_version()}.\n\n{done.stdout.strip()}"
    return found


def written(found: dict[str, str]) -> str:
    """The tables under their titles."""
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in found.items())


def replaced(page: str, run: Run, found: dict[str, str]) -> str:
    """The page with these tables of a run in the place of those that it had. Raises ValueError if it lacks the mark."""
    before, mark, after = page.partition(run.mark)
    if not mark:
        raise ValueError(f"the page has no line {run.mark}")
    last, begins, rest = after.partition(MARKED)
    had = {
        title: text.strip()
        for title, text in re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", last, re.MULTILINE)
    }
    text = written({title: (had | found)[title] for title in run.parts if title in had | found})
    return f"{before}{mark}\n\n{text}\n" + (f"\n{begins}{rest}" if begins else "")


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
        default=[],
        metavar="SCRIPT",
        help="measure these scripts alone, such as large.py",
    )
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/README.md")
    options = parser.parse_args()
    run, machine = ON_GPU if options.gpu else RUN, hardware()
    if options.gpu:
        try:
            machine = f"{open_device('cuda').description}; {machine}"
        except ValueError as fault:
            sys.exit(f"--gpu: {fault}")
    unknown = set(options.only) - set(run.parts.values())
    if unknown:
        parser.error(f"--only {' '.join(sorted(unknown))}: expected some of {' '.join(run.parts.values())}")
    clones = {name: clone for name in TAKE if (clone := getattr(options, name))}
    found = measured(run, machine, clones, options.only)
    print(written(found))
    if options.write:
        page = HERE / "README.md"
        page.write_text(replaced(page.read_text(encoding="utf-8"), run, found), encoding="utf-8")


if __name__ == "__main__":
    main()

"""All benchmarks, one after the other; their tables with the hardware.

    python benchmarks [--authors CLONE] [--grivas CLONE] [--write]        half an hour on two cores
    python benchmarks --gpu [--write]                                     on a GPU instead of the CPU

--write keeps them in benchmarks/README.md, where each of the two has a place of its own: what the other measured last
stays. An otherwise idle machine is needed.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from layernorm_roles.gpu import driver

HERE = Path(__file__).parent


class Run(NamedTuple):
    """What one command measures: a part of the page, between its mark and the next."""

    options: str
    """Options of the command that measures it."""
    parts: dict[str, tuple[str, ...]]
    """From titles to scripts with their options."""

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
        "The majority step": ("majority.py",),
        "The language model's step": ("language_model.py",),
        "Verdicts": ("selectability.py",),
        "Vocabularies and long contexts": ("large.py",),
        "Ceilings": ("ceilings.py",),
        "Many short jobs": ("overhead.py",),
    },
)
ON_GPU = Run("--gpu", {"The paper's preset on a GPU": ("gpu.py",)})
TAKE = {
    "authors": ("majority.py", "selectability.py", "large.py"),
    "grivas": ("selectability.py", "large.py"),
}
"""The scripts that take a clone of others' repositories."""


def hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def tables(run: Run, machine: str, clones: dict[str, Path]) -> str:
    """Measure all of a run: Markdown, with the hardware above it. `clones` of others' repositories are timed, too."""
    measured = [f"Measured on: {machine}, Python {platform.python_version()}."]
    for title, (script, *options) in run.parts.items():
        for name, clone in clones.items():
            options += [f"--{name}", str(clone)] if script in TAKE[name] else []
        print(f"{script} ...", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, HERE / script, *options], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{script} failed")
        measured.append(f"## {title}\n\n{done.stdout.strip()}")
    return "\n\n".join(measured)


def replaced(page: str, run: Run, text: str) -> str:
    """The page with the tables of a run in the place of those that it had. Raises ValueError without the run's mark."""
    before, mark, after = page.partition(run.mark)
    if not mark:
        raise ValueError(f"the page has no line {run.mark}")
    rest = after[after.index(MARKED) :] if MARKED in after else ""
    return f"{before}{mark}\n\n{text}\n" + (f"\n{rest}" if rest else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--authors", type=Path, metavar="CLONE", help="clone of the authors' repository")
    parser.add_argument(
        "--grivas", type=Path, metavar="CLONE", help="clone of unargmaxable, of Grivas et al."
    )
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU")
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/README.md")
    options = parser.parse_args()
    run, machine = ON_GPU if options.gpu else RUN, hardware()
    if options.gpu:
        try:
            machine = f"{driver.usable_cards()[0].name}; {machine}"
        except driver.NoGPU as fault:
            sys.exit(f"--gpu: {fault}")
    text = tables(run, machine, {name: clone for name in TAKE if (clone := getattr(options, name))})
    print(text)
    if options.write:
        page = HERE / "README.md"
        page.write_text(replaced(page.read_text(encoding="utf-8"), run, text), encoding="utf-8")


if __name__ == "__main__":
    main()

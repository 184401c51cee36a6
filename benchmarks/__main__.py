"""All benchmarks, one after the other; their tables with the hardware.

    python benchmarks [--only SCRIPT ...] [--authors CLONE] [--grivas CLONE] [--write]     half an hour on two cores
    python benchmarks --gpu [--write] [options of gpu.py]                                  ten minutes on a GPU

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
}
"""Scripts, with the titles of their tables on the page."""
ON_GPU = {"gpu.py": "Measured on a GPU"}
TAKE = {
    "authors": ("majority.py", "selectability.py"),
    "grivas": ("selectability.py",),
}
"""The scripts that take a clone of others' repositories."""


def hardware():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def printed(script, *options):
    """What a script prints, which is also printed here."""
    lines = []
    with subprocess.Popen(
        [sys.executable, HERE / script, *options], stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        sys.exit(f"{script} failed")
    return "".join(lines).strip()


def replaced(page, title, text):
    """The page with this text below a title, in the place of what stood there."""
    before, found, after = page.partition(f"\n## {title}\n")
    if not found:
        sys.exit(f"benchmarks/README.md has no title {title}")
    _, following, rest = after.partition("\n## ")
    return f"{before}{found}\n{text}\n{following}{rest}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--authors", metavar="CLONE", help="clone of the authors' repository")
    parser.add_argument("--grivas", metavar="CLONE", help="clone of unargmaxable, of Grivas et al.")
    parser.add_argument("--gpu", action="store_true", help="gpu.py alone")
    parser.add_argument("--only", nargs="+", choices=ON_CPU, default=[*ON_CPU], metavar="SCRIPT")
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    options, others = parser.parse_known_args()
    if others and not options.gpu:
        parser.error(f"unknown: {' '.join(others)}")
    machine, page = hardware(), HERE / "README.md"
    if options.gpu:
        try:
            machine = f"{open_device('cuda').description}; {machine}"
        except ValueError as fault:
            sys.exit(f"--gpu: {fault}")
    machine += f", Python {platform.python_version()}."
    for script in ON_GPU if options.gpu else options.only:
        title, clones = (ON_CPU | ON_GPU)[script], vars(options)
        given = [f"--{name}={clones[name]}" for name in TAKE if clones[name] and script in TAKE[name]]
        print(f"## {title}\n\n{machine}\n", flush=True)
        text = printed(script, *given, *others)
        text = f"```\n{text}\n```" if options.gpu else text
        if options.write:
            page.write_text(replaced(page.read_text("utf-8"), title, f"{machine}\n\n{text}"), "utf-8")


if __name__ == "__main__":
    main()

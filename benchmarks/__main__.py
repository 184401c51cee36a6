"""All benchmarks, one after the other; their tables with the hardware.

    python benchmarks [--authors CLONE] [--write]
    python benchmarks --gpu [--write]

--write keeps them in benchmarks/README.md, --gpu measures on a GPU instead of the CPU. An otherwise idle machine is
needed; about 15 minutes.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

from layernorm_roles.gpu import driver

HERE = Path(__file__).parent
MEASURED = "<!-- measured: `python benchmarks --write` replaces what follows -->"
PARTS = {
    "majority.py": "The majority step",
    "language_model.py": "The language model's step",
    "selectability.py": "Verdicts",
    "ceilings.py": "Ceilings",
    "overhead.py": "Many short jobs",
}
ON_GPU = {"gpu.py": "The paper's preset on a GPU"}
MEASURED_ON_GPU = (
    "<!-- measured: `python benchmarks --gpu --write` replaces what follows, up to the next such line -->"
)
TAKE_AUTHORS = ("majority.py", "selectability.py")


def hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--authors", type=Path, metavar="CLONE", help="clone of the authors' repository")
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU")
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/README.md")
    options = parser.parse_args()
    machine = hardware()
    if options.gpu:
        try:
            machine = f"{driver.usable_cards()[0].name}; {machine}"
        except driver.NoGPU as fault:
            sys.exit(f"--gpu: {fault}")
    parts = [f"Measured on: {machine}, Python {platform.python_version()}."]
    for script, title in (ON_GPU if options.gpu else PARTS).items():
        authors = ["--authors", str(options.authors)] if options.authors and script in TAKE_AUTHORS else []
        print(f"{script} ...", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, HERE / script, *authors], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{script} failed")
        parts.append(f"## {title}\n\n{done.stdout.strip()}")
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        page = HERE / "README.md"
        mark = MEASURED_ON_GPU if options.gpu else MEASURED
        before, _, after = page.read_text().partition(mark)
        rest = f"\n{MEASURED}{after.partition(MEASURED)[2]}" if options.gpu else ""
        page.write_text(f"{before}{mark}\n\n{text}\n{rest}")


if __name__ == "__main__":
    main()

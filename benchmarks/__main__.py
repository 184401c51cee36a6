"""All benchmarks, one after the other; their tables with the hardware.

    python benchmarks [--authors CLONE] [--write]

--write keeps them in benchmarks/README.md. An otherwise idle machine is needed; about 15 minutes.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MEASURED = "<!-- measured: `python benchmarks --write` replaces what follows -->"
PARTS = {
    "majority.py": "The majority step",
    "language_model.py": "The language model's step",
    "selectability.py": "Verdicts",
    "ceilings.py": "Ceilings",
    "overhead.py": "Many short jobs",
}
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
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/README.md")
    options = parser.parse_args()
    parts = [f"Measured on: {hardware()}, Python {platform.python_version()}."]
    for script, title in PARTS.items():
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
        page.write_text(page.read_text().partition(MEASURED)[0] + f"{MEASURED}\n\n{text}\n")


if __name__ == "__main__":
    main()

"""Replaces the kept tables, results/published/, by those of a finished reproduction: publish.py results/full"""

import shutil
import sys
from pathlib import Path

from layernorm_roles import files

LARGEST = 2_500_000  # bytes of a file that is kept: the history of the repository holds every one for ever
run, kept = Path(sys.argv[1]), Path("results/published")
if not (run / "report.html").is_file():
    sys.exit(f"{run}: expected a finished reproduction, which has a report.html")
names = ["settings.json", *(f"parquet/{path.name}" for path in sorted(run.glob("parquet/*.parquet")))]
content = {name: files.read_bytes(run / name) for name in names}  # ValueError if a file is damaged
if large := [name for name in names if len(content[name]) > LARGEST]:
    sys.exit(f"{run}: expected files of at most {LARGEST:,} bytes: {', '.join(large)}")
shutil.rmtree(kept, ignore_errors=True)
for name in names:
    with files.atomic_write(kept / name) as path:
        path.write_bytes(content[name])
print("Now: snakemake --cores all published_figures results/published/report.html readme")

"""Puts a finished reproduction in the place of the kept one, results/published/."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layernorm_roles import files
from layernorm_roles.evidence.draw import draw_groups
from layernorm_roles.evidence.page import page

LARGEST = 2_500_000
"""Bytes of the largest Parquet file that is kept: the history of the repository holds every kept one for ever."""


def publish(plan: Mapping[str, Any], run: str | Path, kept: str | Path) -> None:
    """Replace the kept reproduction, in the folder `kept`, by the finished reproduction in the folder `run`.

    The files that `plan` lists under `files`, as paths below `run`, are copied, and the HTML pages are written anew.
    `plan` also has the reproduction's `settings` and the names of its `tables` and `figures`. Raises ValueError, and
    leaves `kept` as it was, if a file is missing or damaged, or if a Parquet file has more than 2,500,000 bytes
    (LARGEST).
    """
    run, kept, names = Path(run), Path(kept), list(plan["files"])
    missing = [name for name in names if not (run / name).is_file()]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ValueError(
            f"{run} is not a finished reproduction, it lacks {', '.join(missing[:5])}{more}; "
            "run snakemake --cores all first"
        )
    large = {name: (run / name).stat().st_size for name in names if name.endswith(".parquet")}
    if large := [f"{name} ({size:,} bytes)" for name, size in large.items() if size > LARGEST]:
        raise ValueError(f"{run}: too large to be kept, more than {LARGEST:,} bytes: {', '.join(large)}")
    partial = kept.parent / f".{kept.name}.partial" / kept.name
    shutil.rmtree(partial.parent, ignore_errors=True)
    for name in names:
        content = files.read_bytes(run / name)
        with files.atomic_write(partial / name) as path:
            path.write_bytes(content)
    _show(plan, partial)
    if kept.exists():
        shutil.rmtree(kept)
    partial.rename(kept)
    partial.parent.rmdir()


def _show(plan: Mapping[str, Any], folder: Path) -> None:
    """Write the pages and the tables of verdicts of the reproduction in `folder` as those of the kept one."""
    inputs = {name: folder / f"parquet/{name}.parquet" for name in plan["tables"]}
    inputs["figures"] = [folder / f"figures/{name}.png" for name in plan["figures"]]
    # No options are needed to mean the kept reproduction, and beside its verdicts stand no older ones.
    shown = {**plan, "options": "", "kept": {}, "groups": ["verdicts"]}
    tables = [folder / name for name in plan["files"] if name.startswith("tables/claims.")]
    draw_groups(shown, [inputs["claims"]], tables)
    page.write(shown, inputs, folder / "report.html", folder / "findings.html")

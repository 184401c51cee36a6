"""The kept reproduction in results/published/."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from layernorm_roles import files
from layernorm_roles.evidence.page import page
from layernorm_roles.evidence.page.page import Reproduction

LARGEST = 2_000_000
"""Bytes of the largest Parquet file that is kept: the history of the repository holds every kept one for ever."""


def publish(run: str | Path, kept: str | Path, names: Iterable[str], reproduction: Reproduction) -> None:
    """Replace the folder `kept` by files of the folder `run`, and a report and findings made from them.

    `names` are the paths of the files in `run`. `reproduction` says what the report shows, by paths in `run` that are
    among `names`. Nothing of an earlier kept reproduction stays. Raises ValueError with the names of files that `run`
    lacks or that are damaged, and of Parquet files above LARGEST; nothing is touched then.
    """
    run, kept, names = Path(run), Path(kept), list(names)
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
    partial = kept.with_name(f".{kept.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name in names:
        content = files.read_bytes(run / name)
        with files.atomic_write(partial / name) as path:
            path.write_bytes(content)
    page.write(_moved(reproduction, run, partial, kept.name), partial)
    files.seal(partial)
    if kept.exists():
        shutil.rmtree(kept)
    partial.rename(kept)


def _moved(reproduction: Reproduction, run: Path, folder: Path, name: str) -> Reproduction:
    def copies(paths: Mapping[str, Path]) -> dict[str, Path]:
        return {key: folder / path.relative_to(run) for key, path in paths.items()}

    durations = reproduction.durations and folder / reproduction.durations.relative_to(run)
    tables, figures = copies(reproduction.tables), copies(reproduction.figures)
    return replace(reproduction, name=name, tables=tables, figures=figures, durations=durations, options="")

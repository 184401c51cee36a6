"""Plan files: JSON that says what a job's result depends on, by which it is decided which jobs are done again.

Whenever Snakemake plans, results/<name>/plan/<job>.json is written for every job, as an input of its rule, with hashes
of the plans of the jobs whose results it reads: a change goes through to all that depends on it. A finished job leaves
a copy, results/<name>/origin/<job>.json, and is done again if and only if its plan file differs from the copy. For
this, planning sets the time of a plan file that equals its copy to long ago, and that of any other to now; Snakemake,
to which all other inputs are `ancient`, makes again what is older than an input.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from layernorm_roles import catalogue, files, provenance, source_code

FOLDER, ORIGIN = "plan", "origin"
"""Names of the folders in results/<name>/ with plan files, and with the copies of them that finished jobs leave."""

UNCHECKED = (FOLDER, ORIGIN, "logs", "benchmarks")
"""Names of the folders in results/<name>/ whose files have no checksum."""

RESULTS = ("data", "runs", "parquet")
"""Folders in results/<name>/ of which at least one is there once the first job has begun."""

LONG_AGO = (1, 1)
"""Times of last access and last change of a file that counts as old, in seconds since 1970; Snakemake ignores a 0."""

_held = []
"""The lock files that this process holds open; they are closed, and so unlocked, when it ends."""


class Plan(dict[str, Any]):
    """A job's plan: a dictionary of all that the job's result depends on, read from the JSON file at `path`."""

    def __init__(self, path: str | Path):
        self.path, self.text = Path(path), Path(path).read_text(encoding="utf-8")
        super().__init__(json.loads(self.text))

    def of(self, job: str) -> dict[str, Any]:
        """The plan of the job called `job`, which must be one whose result the job of this plan reads.

        Raises ValueError if that plan has changed since this one was made.
        """
        other = Plan(self.path.parents[self["job"].count("/")] / f"{job}.json")
        if hash_of(other) != self["made_by"][job]:
            raise ValueError(f"{other.path}: planned anew since {self.path} was; run the command again")
        return dict(other)

    def finish(self, origin: str | Path) -> None:
        """Mark the job as done, by writing a copy of its plan file to the path `origin`.

        Raises ValueError if the plan file, the code of a user's norm or a corpus file that the plan lists has changed
        since the job was planned.
        """
        if _text(self.path) != self.text:
            raise ValueError(f"{self.path}: planned anew while its job ran; run the command again")
        norms = self.get("norms") or {run["variant"]: run["norm"] for run in self.get("runs", ())}
        now = {norm: source_code.of_norm(norm) for norm in norms.values()}
        edited = [norm for variant, norm in norms.items() if now[norm] != self["norm_code"][variant]]
        edited += [path for path, digest in self.get("corpus", {}).items() if files.sha256_of(path) != digest]
        if edited:
            raise ValueError(
                f"{', '.join(edited)}: edited since {self.path} was planned; run the command again"
            )
        files.replace_text(Path(origin), self.text)


def plan(stage: str, job: str, made_by: Mapping[str, str], **parameters: Any) -> dict[str, Any]:
    """The plan of the job called `job`: a dictionary of all that the job's result depends on.

    `stage` is the kind of work, such as "majority"; a hash of its code goes into the plan. `made_by` maps the name of
    each job or table that this job reads, in the order of the job's inputs, to a hash of what that was made from.
    `parameters` are further entries, such as settings and seeds, which JSON can hold.
    """
    return {"job": job, "stage": stage, "code": catalogue.code(stage), **parameters, "made_by": dict(made_by)}


def hash_of(plan: Mapping[str, Any]) -> str:
    """A hash of 16 hexadecimal digits of a job's plan; it does not depend on the order of the plan's keys."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:16]


def write(folder: str | Path, plans: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the plan file of each job to `folder`, and set file times so that Snakemake does only unfinished jobs.

    `folder` is results/<name>/, and `plans` maps the name of each job to its plan. A job is finished if its plan equals
    the copy that the job left when it was done. Plan files of all other jobs are deleted. Raises ValueError if a plan
    file cannot be written, or if another command is making results in `folder` from other plans.
    """
    folder = Path(folder)
    texts = {folder / FOLDER / f"{job}.json": _as_text(each) for job, each in plans.items()}
    different = [path for path, text in texts.items() if _text(path) != text]
    there = (folder / FOLDER).rglob("*.json")
    others = [path for path in there if path not in texts and _is_plan(path, folder)]
    held = _hold(folder)
    if not held and (different or others):
        raise ValueError(
            f"{folder}: another command makes it at this moment, with other settings or code; wait until it has "
            "ended, or give this one another `name`"
        )
    try:
        if held:
            for path in (folder / FOLDER).rglob(".*.partial"):  # what killed commands left
                path.unlink(missing_ok=True)
        for path in different:
            files.replace_text(path, texts[path])
        for path in others:
            path.unlink(missing_ok=True)
        for path, text in texts.items():
            origin = folder / ORIGIN / path.relative_to(folder / FOLDER)
            if origin.is_file():
                os.utime(origin, LONG_AGO)
            os.utime(path, LONG_AGO if _text(origin) == text else None)
    except OSError as error:  # it names no file where a disk is full, or where a file is another user's
        raise ValueError(
            f"{path} or its copy in {ORIGIN}/: {error.strerror}: expected files of your own, on a disk with space"
        ) from None


def begun(folder: str | Path) -> bool:
    """Whether any job that writes results to `folder`, which is results/<name>/, has ever begun."""
    return any(Path(folder, each).exists() for each in RESULTS)


def check(folder: str | Path) -> int:
    """Return how many planned jobs are not done in `folder`, results/<name>/; raise ValueError if a file is not right.

    A file is not right if it is damaged, missing or made from another plan. The message has a line for each such file,
    and for each plan file that differs from the copy that its finished job left. ValueError is also raised if the
    folder has no copy of a plan, since then no job has finished.
    """
    there = sorted(Path(folder, ORIGIN).rglob("*.json"))
    copies = {path.relative_to(Path(folder, ORIGIN)).as_posix(): _text(path) for path in there}
    faults = [*files.faults(folder, UNCHECKED), *_of_other_runs(folder, copies)]
    for name, text in copies.items():
        path = Path(folder, FOLDER, name)
        if path.is_file() and _text(path) != text:
            faults.append(
                f"{path}: differs from its copy in {ORIGIN}/; run again, which makes its results anew"
            )
    if not faults and not copies:
        raise ValueError(
            f"{folder}: no job has left a copy of its plan in {ORIGIN}/; is the configuration that of the run, and was "
            f"{ORIGIN}/ copied with the results?"
        )
    if faults:
        files_are = "1 file is" if len(faults) == 1 else f"{len(faults)} files are"
        raise ValueError("\n".join([f"{folder}: {files_are} not as this configuration makes them", *faults]))
    planned = Path(folder, FOLDER)
    return len({path.relative_to(planned).as_posix() for path in planned.rglob("*.json")} - {*copies})


def _of_other_runs(folder: str | Path, copies: Mapping[str, str | None]) -> Iterator[str]:
    """A sentence for each Parquet file in `folder` that was made from another plan than its job left a copy of."""
    import pyarrow.parquet as pq  # which no plan needs

    for path in files.visible(folder, UNCHECKED):
        if path.suffix == ".parquet":
            try:
                stated = json.loads((pq.read_schema(path).metadata or {}).get(b"config", b"{}"))
                origin = json.loads(copies.get(f"{stated.get('job')}.json") or "{}")
                provenance.refuse_contradiction(path, stated, origin)
            except files.Unusable as fault:
                yield str(fault)
            except (OSError, ValueError):  # a damaged file or copy, which its checksum or its plan tells
                continue


def _is_plan(path: Path, folder: Path) -> bool:
    job = path.relative_to(folder / FOLDER).as_posix().removesuffix(".json")
    return (_text(path) or "").startswith(_as_text({"job": job}).removesuffix("\n}\n"))


def _as_text(plan: Mapping[str, Any]) -> str:
    return json.dumps(plan, indent=1) + "\n"


def _text(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8")
    return None


def _hold(folder: Path) -> bool:
    """Lock the plan files in `folder` until this process ends; False if another process has locked them."""
    path = folder / FOLDER / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    _held.append(file)
    return True

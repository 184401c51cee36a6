"""Plans: all that a job's result depends on, as JSON values, by which it is decided which jobs are done again.

A plan has the job's settings and seeds, a hash of its code, and hashes of the plans of the jobs whose results it reads,
so that a change goes through to all that depends on it. Snakemake gives a job its plan as a parameter, and the job
leaves it in results/<name>/origin/<job>.json. A job that left no plan there, or another one, is done again,
whatever the times of files are and whatever Snakemake noted about them.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from layernorm_roles import catalogue, files, source_code

Plan = Mapping[str, Any]

ORIGIN = "origin"
"""Name of the folder in results/<name>/ with the plans that finished jobs left."""

DIFFERS = f"{ORIGIN}/.differs"
"""A file in results/<name>/ that `Plans.differs` makes newer than all results."""

UNCHECKED = (ORIGIN, "logs", "benchmarks")
"""Names of the folders in results/<name>/ whose files have no checksum."""


class Plans(Mapping[str, Plan]):
    """The plans of the jobs that make the results in `folder`, by job; each is made when it is asked for."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._recipes: dict[str, tuple[str, Iterable[str] | Mapping[str, str], Mapping[str, Any]]] = {}
        self._plans: dict[str, Plan] = {}
        self._differ: dict[str, bool] = {}

    def add(
        self, stage: str, job: str, reads: Iterable[str] | Mapping[str, str] = (), **parameters: Any
    ) -> None:
        """Plan `job`, whose code is that of `stage` and which reads the results of the jobs `reads`, in this order.

        `reads` may also map names of files to hashes of their content. A parameter may be a function that gives its
        value; it is called when the plan is asked for.
        """
        self._recipes[job] = stage, reads, parameters

    def __getitem__(self, job: str) -> Plan:
        if job not in self._plans:
            stage, reads, parameters = self._recipes[job]
            made_by = reads if isinstance(reads, Mapping) else {each: hash_of(self[each]) for each in reads}
            given = {key: each() if isinstance(each, Callable) else each for key, each in parameters.items()}
            plan = {
                "job": job,
                "stage": stage,
                "code": catalogue.code(stage),
                **given,
                "made_by": dict(made_by),
            }
            self._plans[job] = plan
        return self._plans[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self._recipes)

    def __len__(self) -> int:
        return len(self._recipes)

    def of_stages(self, stages: Iterable[str]) -> list[str]:
        """The names of the jobs of the given stages."""
        return [job for job, (stage, *_) in self._recipes.items() if stage in stages]

    def differs(self, job: str) -> bool:
        """Whether `job` left no plan or another one; if so, the file DIFFERS is now newer than all results.

        The answer is the same for as long as this process runs.
        """
        if job not in self._differ:
            self._differ[job] = _text(self.folder / ORIGIN / f"{job}.json") != as_text(self[job])
            if self._differ[job] and sum(self._differ.values()) == 1:
                # Snakemake compares the content of small files, so that a new time alone would not do.
                files.replace_text(self.folder / DIFFERS, f"{time.time_ns()} {os.getpid()}\n")
        return self._differ[job]

    def check(self) -> int:
        """Return how many jobs are not done; raise ValueError if a file of results is not right.

        A file is not right if it is damaged, missing or made from another plan. The message has a line for each, and
        for each job that left another plan than its present one. ValueError is also raised if no job has finished.
        """
        texts = {job: _text(self.folder / ORIGIN / f"{job}.json") for job in self}
        faults = [*files.faults(self.folder, UNCHECKED), *self._of_other_runs()]
        for job, left in texts.items():
            if left not in (None, as_text(self[job])):
                faults.append(f"{job}: made with other settings or code; run again, which makes it anew")
        if not faults and not any(texts.values()):
            raise ValueError(
                f"{self.folder}: no job has left its plan in {ORIGIN}/; is the configuration that of the run, and was "
                f"{ORIGIN}/ copied with the results?"
            )
        if faults:
            files_are = "1 file is" if len(faults) == 1 else f"{len(faults)} files are"
            raise ValueError("\n".join([f"{self.folder}: {files_are} not as planned", *faults]))
        return list(texts.values()).count(None)

    def _of_other_runs(self) -> Iterator[str]:
        """A sentence for each Parquet file that was made from another plan than its job left."""
        import pyarrow.parquet as pq  # which no plan needs

        for path in files.visible(self.folder, UNCHECKED):
            if path.suffix == ".parquet":
                with suppress(OSError, ValueError, KeyError):  # damaged, which its checksum or its plan tells
                    stated = json.loads((pq.read_schema(path).metadata or {})[b"config"])
                    left = json.loads(_text(self.folder / ORIGIN / f"{stated['job']}.json") or "")
                    if hash_of(stated) != hash_of(left):
                        yield f"{path}: a file of another run{files.ADVICE}"


def hash_of(plan: Plan) -> str:
    """A hash of 16 hexadecimal digits of a job's plan; it does not depend on the order of the plan's keys."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:16]


def refuse_other_run(path: str | Path, made_from: Plan, expected: str) -> None:
    """Raise ValueError unless `made_from`, the plan that the file at `path` was made from, has the hash `expected`."""
    if hash_of(made_from) != expected:
        raise files.Unusable.because(path, f"a file of another run of {made_from.get('job', 'no job')}")


def finish(plan: Plan, origin: str | Path) -> None:
    """Mark the job with this plan as done: write its plan to the path `origin`.

    Raises ValueError if the code of a user's norm or a corpus file has changed since the job was planned.
    """
    norms = plan.get("norms") or {run["variant"]: run["norm"] for run in plan.get("runs", ())}
    now = {norm: source_code.of_norm(norm) for norm in norms.values()}
    edited = [norm for variant, norm in norms.items() if now[norm] != plan["norm_code"][variant]]
    edited += [path for path, digest in plan.get("corpus", {}).items() if files.sha256_of(path) != digest]
    if edited:
        raise ValueError(f"{', '.join(edited)}: edited since the job was planned; run the command again")
    files.replace_text(Path(origin), as_text(plan))


def as_text(plan: Plan) -> str:
    """A plan as the JSON text that its job leaves."""
    return json.dumps(plan, indent=1) + "\n"


def _text(path: Path) -> str | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        return path.read_text(encoding="utf-8", errors="replace")
    return None

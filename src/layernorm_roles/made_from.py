"""What the files of a reproduction were made from, kept in its folder: one note for each job.

Snakemake keeps the same facts in .snakemake/, which a copy of results/ lacks. So each job writes a note, and whenever
the workflow is planned, Snakemake is given what the notes say. A note is a JSON file in results/<name>/.made_from/, at
the place that the job's log has in results/<name>/logs/.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_roles import files, provenance

FOLDER = ".made_from"
"""Name of the folder of a reproduction that holds the notes."""

UNCHECKED = ("logs", "benchmarks", FOLDER)
"""Folders of a reproduction whose files have neither a checksum nor a note."""

OF_THE_PLAN = "rules.json"
"""The file that the plan writes before any job, when a reproduction begins."""

UNKNOWN = "made by nobody knows what: no job has noted that it wrote this content"
ANOTHER = "made from other content of its inputs"


class Note(NamedTuple):
    """What one job has made, and from what: the content of the JSON file that the job leaves in the folder FOLDER."""

    rule: str
    wildcards: dict[str, str]
    params: list[str]
    """The parameters of the rule, such as settings and hashes of code, in the form in which Snakemake keeps them."""
    input: dict[str, str]
    """The SHA-256 of each input file by its path."""
    output: dict[str, str | None]
    """The SHA-256 of each output file by its path."""


def serialised(params: Any) -> list[str]:
    """Parameters of a job, as Snakemake keeps them of a finished job."""
    return sorted(map(repr, params))


def write(job: Any) -> None:
    """Write the note of `job`, the object `snakemake` of a script; none for a job without output files."""
    if not job.output:
        return
    note = Note(
        job.rule,
        dict(job.wildcards.items()),
        serialised(job.params),
        {str(path): files.recorded(path) or files.sha256_of(path) for path in job.input},
        {str(path): files.recorded(path) for path in job.output},
    )
    folder, _, log = str(job.log[0]).partition("/logs/")
    path = Path(folder, FOLDER, log).with_suffix(".json")
    files.replace_text(path, json.dumps(note._asdict(), indent=1) + "\n")


def read(folder: str | Path) -> list[Note]:
    """The notes of the reproduction in `folder`; damaged ones are left out, so that their files have none."""
    notes = []
    for path in sorted(Path(folder, FOLDER).rglob("*.json")):
        try:
            notes.append(Note(**json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue
    return notes


def records(folder: str | Path, complete: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each file of the reproduction in `folder`, and what Snakemake is to know of its making: rule, params and inputs.

    The parameters of a file are a sentence instead, which no rule has, if it is not the file that its note is about, if
    an input is not the one it was made from, or, in a folder that rules alone fill (`complete`), if it has no note.
    """
    seen: dict[str, str | None] = {}

    def content(path: str) -> str | None:
        if path not in seen:
            seen[path] = files.recorded(path) or provenance.content_of(path)
        return seen[path]

    known = set()
    for note in read(folder):
        # An input that is gone is no reason: Snakemake makes it again where it is needed.
        same = all(content(path) in (digest, None) for path, digest in note.input.items())
        for path, digest in note.output.items():
            params = note.params if same else [ANOTHER]
            known.add(path)
            yield (
                path,
                {
                    "rule": note.rule,
                    "params": params if files.recorded(path) == digest else [UNKNOWN],
                    "input": sorted(note.input),
                    "input_checksums": {key: f"sha256:{value}" for key, value in note.input.items()},
                },
            )
    for path in files.visible(folder, UNCHECKED) if complete else ():
        if str(path) not in known and path.name != OF_THE_PLAN:
            yield str(path), {"params": [UNKNOWN], "input": None, "input_checksums": {}}


def check(folder: str | Path, outdated: Iterable[str]) -> None:
    """Raise ValueError with a line for each file under `folder` that is damaged, or was made from something else.

    So it does where no job has made anything.
    `outdated` are the files that the notes say were made with other settings or code than are wanted.
    """
    found = files.faults(folder, beside=UNCHECKED)
    other = dict.fromkeys(outdated, "made with other settings or code")
    for path, record in records(folder):
        unfinished = Path(path).name.startswith("checkpoint") or not files.recorded(path)
        if path not in other and record["params"] in ([UNKNOWN], [ANOTHER]) and not unfinished:
            other[path] = record["params"][0]
    found += [f"{path}: {reason}; run again, which makes it anew" for path, reason in sorted(other.items())]
    if not found and not read(folder):
        raise ValueError(
            f"{folder}: nothing is there that a job has made; is the configuration the one that was run?"
        )
    if found:
        files_are = "1 file is" if len(found) == 1 else f"{len(found)} files are"
        raise ValueError("\n".join([f"{folder}: {files_are} not as this configuration makes them", *found]))

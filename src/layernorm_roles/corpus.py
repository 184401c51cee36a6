"""The files that a text is made of, checked before any work starts."""

import os
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from layernorm_roles.settings.text import Source


def files_of(text: str, sources: Iterable[Source]) -> list[str]:
    """The files that the paths of `sources` match, sorted; `text` is the name of the text in config.yaml.

    Raises ValueError for a path that no file matches, for what is no file, for a name that Snakemake cannot take, for a
    file of the results, which Snakemake would make, and for a file that a source would read twice.
    """
    corpus = []
    for source in sources:
        matched = source.matching_files()
        if missing := [path for path, files in matched.items() if not files]:
            raise ValueError(f"text.{text}: no file matches {', '.join(missing)}; expected at least one")
        read = list(chain(*matched.values()))
        for file in read:
            if not Path(file).is_file():
                raise ValueError(f"text.{text}: {file} is a folder, or a link to nothing; expected a file")
            if "{" in file or "}" in file or not file.isprintable():
                raise ValueError(
                    f"text.{text}: {file!r}: expected a file whose name has no {{, no }} and no control characters"
                )
            if Path(os.path.abspath(file)).is_relative_to(Path.cwd() / "results"):  # noqa: PTH100, by its name
                raise ValueError(f"text.{text}: {file} is a result; expected a copy outside results/")
        if again := [file for file, n in Counter(map(os.path.realpath, read)).items() if n > 1]:
            raise ValueError(
                f"text.{text}: {again[0]} is found twice by the paths of a source; expected once"
            )
        corpus += read
    return sorted(set(corpus))

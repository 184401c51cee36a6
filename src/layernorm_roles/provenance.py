"""What a result depends on: settings, random streams, versions, commit, and the code that computes it.

`provenance` makes the metadata that a file carries about its origin. `code_version` is a hash of all that a script
reaches by its imports. Snakemake has it as a parameter of the script's rule, so that an edit of anything reached makes
the rule's outputs again.
"""

import ast
import atexit
import hashlib
import importlib.util
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_roles import __version__, random_streams
from layernorm_roles.files import Unusable, replace_text, sha256_of
from layernorm_roles.random_streams import Stream

PACKAGE = Path(__file__).parent
WITHOUT_RESULTS = (PACKAGE / "job.py", PACKAGE / "made_from.py")
"""Modules through which no number passes (logs, progress, error messages): an edit makes nothing again."""

WITHOUT_NUMBERS = frozenset(
    "datasets huggingface_hub jaxtyping jinja2 markupsafe pyarrow pydantic pydantic_core safetensors threadpoolctl yaml"
    .split()
)  # fmt: skip
"""Packages that check, fetch, store or show, and compute no number: another version makes nothing again."""

SEEDS = PACKAGE / "random_streams.py"
"""The module that seeds generators of other packages, which whoever draws from them imports as well."""


def provenance(
    settings: Mapping[str, Any], device: str, *streams: Stream, torch: bool = False
) -> dict[str, str]:
    """What a reader needs to make a file again, as texts by name, for the metadata of the file.

    The names are config (`settings` as JSON), config_sha256, version (of this package), git_commit, seed_rule, torch,
    python and device. `streams` are the random streams behind the file; `torch` says whether torch's own generator was
    used beside them.
    """
    return {
        **_config(settings),
        "version": __version__,
        "git_commit": git_commit(),
        "seed_rule": random_streams.describe(streams, torch),
        "torch": _installed_version("torch") or "not installed",
        "python": platform.python_version(),
        "device": device,
    }


def joined(sources: Iterable[Mapping[str, str]], settings: Mapping[str, Any]) -> dict[str, str]:
    """The provenance of a file that is made from other files whose provenance is `sources`.

    An entry lists, sorted and separated by commas, all different values that the sources have for it; config is
    `settings`.
    """
    sources = list(sources)
    entries = {
        key: ", ".join(sorted({source[key] for source in sources}))
        for key in ("version", "git_commit", "seed_rule", "torch", "python", "device")
    }
    return {**_config(settings), **entries}


def _config(settings: Mapping[str, Any]) -> dict[str, str]:
    text = json.dumps(settings, sort_keys=True)
    return {"config": text, "config_sha256": hashlib.sha256(text.encode()).hexdigest()}


def run_identity(variant: str, norm: str, settings: Mapping[str, Any], **names: Any) -> dict[str, Any]:
    """What every file of a training run says of itself, and what its readers expect of it.

    `norm` is what `norms.build_pair` takes for the variant, `settings` are those of the experiment or model, and
    `names` holds whatever else names the run: its experiment or model, its seed (or `seeds`, for a file of several
    runs), and in the majority task d_model and base_learning_rate.
    """
    return {**names, "variant": variant, "norm": norm, "settings": dict(settings)}


def refuse_other(path: str | Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise ValueError if `found`, what the file at `path` says of itself, lacks or contradicts an entry of `expected`.

    Both hold what JSON can hold. `found` may have entries that `expected` lacks, at any depth.
    """
    theirs, ours = _leaves(json.loads(json.dumps(found))), _leaves(json.loads(json.dumps(expected)))
    different = [
        f"{key} = {theirs[key]!r}, expected {value!r}" if key in theirs else f"no {key}, expected {value!r}"
        for key, value in ours.items()
        if key not in theirs or theirs[key] != value
    ]
    if different:
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        raise Unusable.because(path, f"a file of another run ({'; '.join(different[:3])}{more})")


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by the names on the way to them, joined by dots."""
    leaves = {}
    for key, value in tree.items():
        leaves |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves


@cache
def git_commit() -> str:
    """The commit of the working tree that this package stands in; "unknown" without git."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def code_version(*starts: str | Path) -> str:
    """A hash of the code and data files that `starts` (Python files) reach, and of the packages that they import.

    It has 16 hexadecimal digits. Comments and docstrings do not count, nor does code that is not imported; of packages
    that compute numbers the installed versions count, but not for which machine they were built.
    """
    files, packages = reached(*starts)
    digest = hashlib.sha256()
    for file in sorted(files):
        meaning = _facts(file).digest if file.suffix == ".py" else content_of(file)
        digest.update(f"{file.name} {meaning}\n".encode())
    for package in sorted(packages - WITHOUT_NUMBERS):
        # A local part, as in 2.13.0+cpu, says for which machine the version was built.
        version = _installed_version(package).partition("+")[0]
        digest.update(f"{package} {version}\n".encode())
    return digest.hexdigest()[:16]


def reached(*starts: str | Path) -> tuple[frozenset[Path], frozenset[str]]:
    """The files that the Python files `starts` reach, themselves included, and the names of other packages they import.

    Imports of modules of this package are followed, and those of modules in the working directory, where a user's own
    norms lie. A name imported from a package leads to the module that defines it, not to all that the package's
    __init__ imports. A module reaches a data file if a string literal in it is the path of the file, relative to the
    module's folder.
    """
    files: set[Path] = set()
    packages: set[str] = set()
    waiting = [Path(start) for start in starts]
    while waiting:
        file = waiting.pop()
        if file in files or file in WITHOUT_RESULTS:
            continue
        files.add(file)
        if file.suffix == ".py":
            more, imported = _direct(file)
            packages |= imported if file != SEEDS else set()
            waiting += more
    return frozenset(files), frozenset(packages)


def module_file(name: str) -> Path:
    """The Python file of the module `name` in this package, in the working directory, or among the installed packages.

    Raises ValueError if there is none.
    """
    place = _place(name, Path.cwd() / "config.yaml")
    if place is None:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.has_location:
            raise ValueError(f"module {name} is not in {Path.cwd()} and not installed")
        return Path(spec.origin)
    return place if place.is_file() else place / "__init__.py"


@cache
def _direct(file: Path) -> tuple[list[Path], set[str]]:
    """The files that a Python file reaches by its own imports and texts, and the packages that it imports."""
    files, packages = [], set()
    facts = _facts(file)
    for module, name in facts.imports:
        place = _place(module, file)
        if place is None:
            packages |= {module.partition(".")[0]} - {""} - sys.stdlib_module_names
        else:
            files += _definers(place, name)
    named = (file.parent / text for text in facts.texts)
    return [*files, *(path for path in named if path.is_file())], packages


class _Facts(NamedTuple):
    """What a Python file says by itself, wherever it lies."""

    imports: list[tuple[str, str | None]]
    """(module, imported name or None) of every import, also within functions."""
    sources: dict[str, str]
    """The module from which each name comes that the file imports outside of functions."""
    texts: list[str]
    """The texts in the file that may name a data file."""
    digest: str
    """A hash of what the file means: of its syntax without docstrings."""


@cache
def _facts(file: Path) -> _Facts:
    return _Facts(*_remembered(str(file), _stamp([file]), lambda: [*_read(file)]))


def _read(file: Path) -> Iterator[Any]:
    """The fields of `_Facts`, in the form in which JSON gives them back."""
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    nodes = [*ast.walk(tree)]
    yield [
        [*found]
        for node in nodes
        for found in (
            [(alias.name, None) for alias in node.names]
            if isinstance(node, ast.Import)
            else [(_source(node), alias.name) for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    yield {
        alias.asname or alias.name: _source(node)
        for node in reversed(tree.body)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    yield [text for text in texts if isinstance(text, str) and _may_name_a_file(text)]
    yield hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest()


_REMEMBERED: dict[str, tuple[list[int], Any]] = {}
"""The facts of files that were read, and the versions of packages, each after the times at which it was found."""


def _remembered(key: str, stamp: list[Any], find: Callable[[], Any]) -> Any:
    """What `find` returns, or has returned for the `key` when its `stamp` was the same."""
    then, found = _REMEMBERED.get(key, (None, None))
    if then != stamp:
        found = find()
        _REMEMBERED[key] = stamp, found
    return found


def _stamp(paths: Iterable[str | Path]) -> list[int]:
    """Numbers that change when one of the files does; the time of an entry's last change cannot be set back."""
    states = [Path(path).stat() for path in paths]
    return [number for state in states for number in (state.st_mtime_ns, state.st_ctime_ns, state.st_size)]


def remember(path: str | Path) -> None:
    """Take what earlier processes have read of Python files from the file `path`, and keep what is read from now on.

    To read all the code that a workflow's scripts reach takes seconds. A file that has changed since is read again; a
    file `path` that is missing, damaged or of another version of this module is not used.
    """
    version = [sys.version, *_stamp([__file__])]
    try:
        found, earlier = json.loads(Path(path).read_text(encoding="utf-8"))
        if found == version:
            _REMEMBERED.update(earlier)
    except (OSError, ValueError, TypeError):
        pass
    before = len(_REMEMBERED), [stamp for stamp, _ in _REMEMBERED.values()]

    def write() -> None:
        if before != (len(_REMEMBERED), [stamp for stamp, _ in _REMEMBERED.values()]):
            with suppress(OSError):  # the time that it saves is not worth an error
                replace_text(Path(path), json.dumps([version, _REMEMBERED]))

    atexit.register(write)


def _source(node: ast.ImportFrom) -> str:
    """The module that names are imported from, with a dot for each level of a relative import."""
    return "." * node.level + (node.module or "")


def _place(module: str, importer: Path) -> Path | None:
    """The folder or file of a module in this package, the working directory or the importer's folder; else None."""
    name = module.lstrip(".")
    own = name.partition(".")[0] == PACKAGE.name
    if level := len(module) - len(name):
        roots = (importer.parents[level - 1],)
    elif own:
        roots = (PACKAGE.parent,)
    elif PACKAGE in importer.parents:
        return None  # beside an installed package lie all others
    else:
        roots = (Path.cwd(), importer.parent)
    found = next(filter(None, (_below(root, name) for root in roots)), None)
    if own and found is None:
        raise ValueError(f"{importer}: imports {module}, which is not there")
    return found


@cache
def _below(root: Path, module: str) -> Path | None:
    """The file or folder of a module, whose name may be empty, below the folder `root`; None if there is none."""
    path = root.joinpath(*filter(None, module.split(".")))
    if module and path.with_suffix(".py").is_file():
        return path.with_suffix(".py")
    return path if path.is_dir() and any(path.glob("*.py")) else None


def _definers(place: Path, name: str | None) -> Iterator[Path]:
    """The files that an import of `name` from the module at `place` leads to."""
    if place.is_file():
        yield place
        return
    init = place / "__init__.py"
    if name is not None and (place / f"{name}.py").is_file():
        yield place / f"{name}.py"
    elif name is not None and (place / name / "__init__.py").is_file():
        yield place / name / "__init__.py"
    elif init.is_file():
        if name in (sources := _facts(init).sources):
            source = _place(sources[name], init)
            yield from _definers(source, name) if source else ()
        else:
            yield init


def _may_name_a_file(text: str) -> bool:
    return "." in text and len(text) < 60 and text.isprintable() and " " not in text and text[0] not in "./"


def content_of(*paths: str | Path) -> str | None:
    """The SHA-256 of the content of files, one after another; None if one is missing.

    With `remember`, files that have not changed since an earlier process read them are not read again.
    """
    try:
        stamp = _stamp(paths)
    except OSError:
        return None
    name = " ".join(["content", *(str(Path(path).absolute()) for path in paths)])
    return _remembered(name, stamp, lambda: sha256_of(*paths))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """`tree` with every text that stands alone as a statement taken out: docstrings of functions and attributes."""

    def is_text(node: ast.stmt) -> bool:
        value = node.value if isinstance(node, ast.Expr) else None
        return isinstance(value, ast.Constant) and isinstance(value.value, str)

    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [part for part in body if not is_text(part)]
    return tree


@cache
def _installed_version(package: str) -> str:
    """The version of the distribution that provides the import name `package`; empty for the standard library."""

    def version() -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return ", ".join(metadata.version(name) for name in _distributions().get(package, []))

    return _remembered(f"package {package}", _installed(), version)


@cache
def _installed() -> list[Any]:
    """The folders in which packages are looked for, with their times, which change when one is installed."""
    return [[folder, Path(folder).stat().st_mtime_ns] for folder in sys.path if Path(folder).is_dir()]


@cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()

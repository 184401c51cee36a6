"""Hashes of the code and the versions of packages behind results, which show when results are to be made again.

A source is a folder or file of this package that `catalogue.STAGES` names as code behind results. All files of a source
count: Python without comments, docstrings and layout, others by their content.
"""

import ast
import hashlib
import importlib.util
import sys
from functools import cache
from importlib import metadata
from modulefinder import ModuleFinder
from pathlib import Path

PACKAGE = Path(__file__).parent


@cache
def digest(sources: tuple[str, ...], packages: tuple[str, ...] = ()) -> str:
    """A hash of 16 hexadecimal digits of the code in `sources` and of the installed versions of `packages`.

    `sources` are paths of folders and files in this package. Comments, layout and docstrings of code do not
    count, but for those of claims.
    """
    files = sorted({file for source in sources for file in files_of(source)})
    parts = [f"{file} {_meaning(PACKAGE / file)}" for file in files]
    parts += [f"{package} {_version(package)}" for package in sorted(packages)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def _version(package: str) -> str:
    """The installed version of a package without a local part such as +cpu, or "not installed" if there is none."""
    try:
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        return "not installed"


def files_of(source: str) -> list[str]:
    """The paths of all files in `source`, a folder or file of this package, relative to the package's folder.

    Raises ValueError if there are none.
    """
    place = PACKAGE / source
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    names = [str(path.relative_to(PACKAGE)) for path in files if "__pycache__" not in path.parts]
    if not names:
        raise ValueError(f"{place}: no such file")
    return names


def of_norm(norm: str) -> str | None:
    """A hash of the code of a user's norm, "package.module:Class"; None for a built-in norm, whose name has no colon.

    The code is the norm's module, all modules that this one imports from the working directory, and all files in the
    module's folder. The folder does not count if it is the working directory or on Python's path for modules. Raises
    ValueError if the module does not exist or cannot be read.
    """
    if ":" not in norm:
        return None
    name, here = norm.partition(":")[0], Path.cwd()
    file = _module(name, here)
    finder = ModuleFinder([str(here)], excludes=[PACKAGE.name])
    try:
        finder.run_script(str(file))
    except (SyntaxError, OSError) as error:
        raise ValueError(f"{file}: {error}") from error
    used = {Path(module.__file__) for module in finder.modules.values() if module.__file__}
    if str(file.parent) not in {str(here), *sys.path}:
        beside = (path for path in file.parent.rglob("*") if path.is_file())
        used |= {path for path in beside if "__pycache__" not in path.parts}
    parts = [f"{path.name} {_meaning(path)}" for path in sorted({file, *used})]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _module(name: str, here: Path) -> Path:
    """The path of the source file of the module `name`, in the folder `here` or among the installed packages."""
    local = here.joinpath(*name.split("."))
    for file in (local.with_suffix(".py"), local / "__init__.py"):
        if file.is_file():
            return file
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.has_location:
        raise ValueError(f"module {name} is not in {here} and not installed")
    return Path(spec.origin)


@cache
def _meaning(file: Path) -> str:
    """The SHA-256 of a file: of its syntax tree without texts that stand alone if it is Python, else of its bytes."""
    content = file.read_bytes()
    if file.suffix == ".py":
        tree = ast.parse(content)
        for node in ast.walk(tree):
            if isinstance(body := getattr(node, "body", None), list) and not _is_claim(node):
                node.body = [each for each in body if not _is_text(each)]
        content = ast.dump(tree).encode()
    return hashlib.sha256(content).hexdigest()


def _is_claim(node: ast.AST) -> bool:
    """Whether a function is decorated as a claim, whose docstring has the words that readers see."""
    calls = [each.func for each in getattr(node, "decorator_list", ()) if isinstance(each, ast.Call)]
    return any(isinstance(call, ast.Name) and call.id == "claim" for call in calls)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

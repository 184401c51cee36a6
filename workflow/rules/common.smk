# What all rule files share: the checked configuration, the run's folder, and what an edit of the code reruns.
import ast
import hashlib
import os
import sys
from functools import cache
from pathlib import Path

import layernorm_roles
from layernorm_roles.config import check, norm_class

SOURCE = Path(layernorm_roles.__file__).parent

try:
    check(config, Path(workflow.basedir) / "workflow/schemas/config.schema.yaml")
except ValueError as fault:
    sys.exit(f"\nerror: {fault}\n")

RUN = f"results/{config['name']}"


def without_docstrings(tree):
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return tree


@cache
def code(*modules):
    """A hash of what the named modules or packages of src/layernorm_roles compute.

    Given to a rule as a parameter, so that an edit makes its outputs again; comments and docstrings do not count.
    """
    digest = hashlib.sha256()
    for module in modules:
        path = SOURCE / module
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            digest.update(ast.dump(without_docstrings(ast.parse(file.read_text()))).encode())
    return digest.hexdigest()[:16]


def gpus():
    """GPUs that a training job asks for: 1 where the configuration wants one or this machine has one."""
    wanted = {"cpu": False, "cuda": True, "auto": os.path.exists("/dev/nvidia0")}
    return int(wanted[config["device"]])


def device():
    return "cuda" if gpus() else "cpu"


def seeded(seeds):
    """(variant, seed) for every run in a `seeds` section of the configuration."""
    return [(variant, seed) for variant, number in seeds.items() for seed in range(number)]


wildcard_constraints:
    run=r"[A-Za-z0-9][A-Za-z0-9_-]*",
    experiment=r"[a-z][a-z0-9_]*",
    variant=r"[a-z][a-z0-9_]*",
    seed=r"\d+",

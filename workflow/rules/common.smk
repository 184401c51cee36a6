# Shared by all stages, the checked configuration, the run's folder, and what an edit of the code makes again.
import ast
import atexit
import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path

import layernorm_roles
from layernorm_roles.config import check, gpus, norm_class

SOURCE = Path(layernorm_roles.__file__).parent

try:
    check(config, Path(workflow.basedir) / "workflow/schemas/config.schema.yaml")
except ValueError as fault:
    sys.exit(f"\nerror: {fault}\n")

if workflow.is_main_process and "--unlock" not in sys.argv and any(Path(".snakemake/locks").glob("*")):
    # Below Snakemake's own, longer words.
    atexit.register(
        print,
        "\na run in this folder goes on, or was killed: if it was, `snakemake --unlock`, then the same command again",
        file=sys.stderr,
    )

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
def hash_of(*files):
    digest = hashlib.sha256()
    for file in files:
        digest.update(ast.dump(without_docstrings(ast.parse(file.read_text()))).encode())
    return digest.hexdigest()[:16]


def code(*modules):
    """A hash of what the named modules or packages of src/layernorm_roles compute.

    Given to a step as a parameter, so that an edit makes its outputs again; comments and docstrings do not count.
    """
    paths = [SOURCE / module for module in modules]
    return hash_of(
        *(f for p in paths for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p.with_suffix(".py")]))
    )


def files_hash(*patterns):
    """The same for the package's files that are not Python."""
    files = [file for pattern in patterns for file in sorted(SOURCE.glob(pattern))]
    return [hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files]


def command_options(wildcards):
    """What a `snakemake` command needs to mean this run, as far as its name tells: the file of its configuration."""
    if wildcards.run in ("default", "published"):
        return ""
    preset = f"workflow/presets/{wildcards.run}.yaml"
    return f" --configfile {preset if Path(preset).exists() else 'FILE'}"


def norm_code(variant):
    """The same for the module of a normalisation of one's own; None for the built-in ones."""
    if variant not in config["norms"]:
        return None
    source, _, _ = config["norms"][variant].partition(":")
    return hash_of(Path(importlib.util.find_spec(source).origin))


def device():
    return "cuda" if gpus(config) else "cpu"


def memory(megabytes, beside_gpu=None):
    """What a job asks of a cluster, in MB: `beside_gpu` where it uses a GPU; each retry asks for twice as much."""
    first = beside_gpu if beside_gpu and gpus(config) else megabytes
    return lambda wildcards, attempt: first * 2 ** (attempt - 1)


def runs(part, file, *groups):
    """`file` of every run of the experiments or models `groups` (all, if none are named) of a part of the configuration."""
    return [
        f"{RUN}/runs/{part}/{group}/{variant}/seed_{seed}/{file}"
        for group in groups or config[part]
        for variant, seeds in config[part][group]["seeds"].items()
        for seed in range(seeds)
    ]


def drawings(category, *names, caption="{name}"):
    """Figures of any run, as PNG, which `snakemake --report` shows with its caption, and as PDF; in pairs.

    `caption` is a file of report/; Snakemake takes no wildcards there, but renders the file with the job's params.
    """
    files = []
    for name in names:
        png, pdf = f"results/{{run}}/figures/{name}.png", f"results/{{run}}/figures/{name}.pdf"
        labels = {"figure": name}
        text = f"../report/{caption.format(name=name)}.rst"
        files += [report(png, caption=text, category=category, labels=labels), pdf]
    return files


def jobs_of_many_runs():
    """(name, experiment, runs) of the majority jobs that train several runs, each a (variant, seed).

    It takes many runs to fill a GPU, which gets an experiment's all at once. On a CPU, starting a process takes longer
    than a short run, so `seeds_per_job` seeds of a variant may share one. Every run has its own files, as if alone;
    but whatever is added to a job trains all of its runs again.
    """
    jobs = []
    for experiment, task in config["majority"].items():
        size, variants = task["seeds_per_job"], task["seeds"].items()
        if device() != "cpu":
            jobs.append(
                (experiment, experiment, [(v, seed) for v, seeds in variants for seed in range(seeds)])
            )
        elif size > 1:
            for variant, seeds in variants:
                for first in range(0, seeds, size):
                    share = range(first, min(first + size, seeds))
                    jobs.append(
                        (f"{experiment}_{variant}_{first}", experiment, [(variant, s) for s in share])
                    )
    return [job for job in jobs if job[2]]


def settings(part, wildcard):
    """What one run computes: not who else is compared with it, so that more seeds keep the runs that are there."""
    return lambda wildcards: {
        key: value
        for key, value in config[part][wildcards[wildcard]].items()
        if key not in ("seeds", "seeds_per_job")
    }


wildcard_constraints:
    run=r"[A-Za-z0-9][A-Za-z0-9_-]*",
    experiment=r"[a-z][a-z0-9_]*",
    variant=r"[a-z][a-z0-9_]*",
    seed=r"\d+",

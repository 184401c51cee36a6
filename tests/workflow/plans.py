"""Plans of the workflow, read from Snakemake: every job with its files, parameters, resources and submission."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PROFILE = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text(encoding="utf-8"))

# In a process of its own: the Snakefile sets environment variables for the jobs.
PROGRAM = """
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings, DAGSettings, GroupSettings, OutputSettings, Quietness, ResourceSettings
)
root, folder, files, config, components, targets = json.loads(sys.argv[1])

def plain(value):
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value]

def named(files):
    return {name: plain(files.get(name)) for name in files.keys()}

def attempts(job):
    for job.attempt in (1, 2, 3):
        resources = dict(job.resources)
        yield [resources.get(name) for name in ("mem_mb", "runtime", "gpu")]

with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
    snakefile = api.workflow(
        resource_settings=ResourceSettings(nodes=100, cores=4),  # as on a cluster
        config_settings=ConfigSettings(configfiles=[Path(file) for file in files], config=config),
        snakefile=Path(root, "Snakefile"),
        workdir=Path(folder),
    )
    snakefile.dag(DAGSettings(targets=targets, forceall=True)).execute_workflow(
        executor="dryrun", group_settings=GroupSettings(group_components=components)
    )
    dag, jobs, units = snakefile._workflow.dag, [], {}
    for job in dag.jobs:
        if not job.rule.norun:
            unit = dag.get_job_group(job) or job
            units.setdefault(unit, dict(unit.resources).get("runtime") or 0)
            jobs.append({
                "rule": job.rule.name,
                "script": job.rule.script and Path(job.rule.script).name,
                "wildcards": job.wildcards_dict,
                "input": [*map(str, job.input)],
                "inputs": named(job.input),
                "outputs": named(job.output),
                "params": {name: plain(job.params.get(name)) for name in job.params.keys()},
                "unit": [*units].index(unit),
                "resources": [*attempts(job)],
            })
print("RESULT" + json.dumps({"jobs": jobs, "minutes": [*units.values()]}))
"""


def planned(files: list[Path], config: dict[str, Any], targets: tuple[str, ...] = ("all",)) -> dict[str, Any]:
    """The jobs of a reproduction whose settings are in `files` and `config`, from nothing, on a cluster.

    It lies beside the kept one.
    They are under `jobs`; `minutes` has the minutes that each submission asks for, by the number that a job calls
    `unit`.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "results").mkdir()
        Path(folder, "results/published").symlink_to(ROOT / "results/published")
        groups = PROFILE["group-components"]
        given = [str(ROOT), folder, [str(file) for file in files], config, groups, targets]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(given)], cwd=ROOT, text=True, capture_output=True
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.partition("RESULT")[2])

"""Plan files of jobs that tests make by hand."""

import json

from layernorm_roles.plan import Plan, hash_of


def planned(folder, job, reads=(), **parameters):
    """The plan of `job` in the reproduction at `folder`, which reads the results of jobs that were planned before."""
    made_by = {name: hash_of(Plan(folder / f"plan/{name}.json")) for name in reads}
    path = folder / f"plan/{job}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"job": job, "code": "a", **parameters, "made_by": made_by}))
    return Plan(path)

"""Plan files of jobs, for tests of what jobs call."""

import json

from layernorm_roles import files
from layernorm_roles.plan import Plan, hash_of


def planned(folder, job, reads=(), **parameters):
    """The plan of `job`, from its plan file in `folder`/plan; `reads` names jobs that were planned there before."""
    made_by = {name: hash_of(Plan(folder / f"plan/{name}.json")) for name in reads}
    path = folder / f"plan/{job}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_text(path, json.dumps({"job": job, **parameters, "made_by": made_by}))
    return Plan(path)

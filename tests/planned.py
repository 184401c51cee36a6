"""Plans of jobs that tests make by hand."""

import json

from layernorm_roles.plan import hash_of


def planned(job, *reads, **parameters):
    """The plan of `job`, which reads the results of the jobs with the plans `reads`, with values as JSON has them."""
    made_by = {each["job"]: hash_of(each) for each in reads}
    return json.loads(json.dumps({"job": job, "code": "a", **parameters, "made_by": made_by}))

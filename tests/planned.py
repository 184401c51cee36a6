"""Plans of jobs that tests make by hand."""

from layernorm_roles.plan import hash_of


def planned(job, *reads, **parameters):
    """The plan of `job`, which reads the results of the jobs with the plans `reads`."""
    return {"job": job, "code": "a", **parameters, "made_by": {each["job"]: hash_of(each) for each in reads}}

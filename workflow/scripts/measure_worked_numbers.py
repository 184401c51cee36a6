from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.statements import worked_numbers

    about = store.provenance({}, "cpu", "nothing is random")
    store.write(worked_numbers.measure(), "worked_numbers", snakemake.output[0], about)

from layernorm_roles import store
from layernorm_roles.job import job
from layernorm_roles.majority import data

with job(snakemake.log[0]):
    task, seed = snakemake.params.task, int(snakemake.wildcards.seed)
    about = store.provenance(task, device="cpu", seed_rule="numpy default_rng([seed, 0])")
    store.write(data.generate(task, seed), "majority_data", snakemake.output[0], about)

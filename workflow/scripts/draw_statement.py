from layernorm_roles import store
from layernorm_roles.evidence import statements, style
from layernorm_roles.job import job

with job(snakemake.log[0]):
    name = snakemake.wildcards.statement
    style.theme()
    style.save(statements.draw(name, store.read(snakemake.input[0], name)), *snakemake.output)

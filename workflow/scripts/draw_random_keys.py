from layernorm_roles import store
from layernorm_roles.evidence import random_keys, style
from layernorm_roles.job import job

with job(snakemake.log[0]):
    norms = store.read(snakemake.input.norms, "random_keys")
    precision = store.read(snakemake.input.precision, "random_keys_precision")
    style.theme()
    paths = iter(snakemake.output)
    for name, png, pdf in zip(snakemake.params.figures, paths, paths, strict=True):
        style.save(random_keys.draw(name, norms, precision), png, pdf)

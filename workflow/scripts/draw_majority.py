from layernorm_roles import store
from layernorm_roles.evidence import majority, style
from layernorm_roles.job import job

with job(snakemake.log[0]):
    metrics = store.read(snakemake.input.metrics, "majority_metrics")
    vectors = store.read(snakemake.input.vectors, "majority_vectors")
    style.theme()
    paths = iter(snakemake.output)
    for name, png, pdf in zip(snakemake.params.figures, paths, paths, strict=True):
        style.save(majority.draw(name, metrics, vectors), png, pdf)

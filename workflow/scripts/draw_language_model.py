from layernorm_roles import store
from layernorm_roles.evidence import language_model, style
from layernorm_roles.job import job

with job(snakemake.log[0]):
    metrics = store.read(snakemake.input.metrics, "language_model_metrics")
    bert_metrics = store.read(snakemake.input.bert_metrics, "language_model_metrics")
    keys = store.read(snakemake.input.verdicts, "key_selectability")
    style.theme()
    paths = iter(snakemake.output)
    for name, png, pdf in zip(snakemake.params.figures, paths, paths, strict=True):
        style.save(language_model.draw(name, metrics, bert_metrics, keys), png, pdf)

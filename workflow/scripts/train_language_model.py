from pathlib import Path

from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.language_model.train import train_batch

    given, outputs = dict(snakemake.input.items()), dict(snakemake.output.items())
    downloads = Path(given["manifest"]).parents[2] / "downloads"
    train_batch({**plan, "downloads": str(downloads)}, given, outputs, snakemake.threads)

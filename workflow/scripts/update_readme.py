from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.evidence import published

    readme = Path("README.md")
    text = published.with_verdicts(readme.read_text(), store.read(snakemake.input[0], "claims"))
    with store.whole(readme) as partial:
        partial.write_text(text)

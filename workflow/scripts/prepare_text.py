from pathlib import Path

from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.settings.text import Text
    from layernorm_roles.text.prepare import prepare

    folder = Path(snakemake.output.manifest).parent
    prepare(Text.model_validate(plan["settings"]), folder, plan["seed"], folder.parents[1] / "downloads")

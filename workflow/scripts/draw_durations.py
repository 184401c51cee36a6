from layernorm_roles.evidence import durations, style, tables
from layernorm_roles.job import job

with job(snakemake.log[0]):
    table = durations.durations(snakemake.params.benchmarks)
    tables.save(
        table,
        snakemake.output.csv,
        snakemake.output.md,
        {"wall_minutes": "{:,.1f}".format, "largest_memory_mb": "{:,.0f}".format},
        note="All jobs of a rule together; jobs ran side by side on this machine's cores.",
    )
    style.theme()
    style.save(durations.draw(table), snakemake.output.png, snakemake.output.pdf)

from layernorm_roles import store
from layernorm_roles.evidence import majority, tables
from layernorm_roles.job import job

with job(snakemake.log[0]):
    runs = majority.steps_to_reach(store.read(snakemake.input[0], "majority_metrics"))
    with store.whole(snakemake.output.runs) as partial:
        runs.to_csv(partial, index=False)
    steps, ratio = "{:,.0f}".format, "{:.2f}".format
    tables.save(
        majority.convergence(runs),
        snakemake.output.csv,
        snakemake.output.md,
        {"median_steps": steps, "ratio_to_layernorm": ratio, "ratio_low": ratio, "ratio_high": ratio},
        note="Steps until the test loss (nats per token) is first reached; ratio: geometric mean over paired seeds, "
        "with the 95 % bootstrap interval over seeds.",
    )

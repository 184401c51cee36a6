# The whole reproduction: `snakemake --cores all`. Parts of it: `snakemake --cores all majority`, random_keys,
# language_model, statements. Settings are in config.yaml; a preset is laid over it with --configfile.
from snakemake.utils import min_version

min_version("9.14")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/text.smk"
include: "workflow/rules/majority.smk"
include: "workflow/rules/random_keys.smk"
include: "workflow/rules/language_model.smk"
include: "workflow/rules/statements.smk"
include: "workflow/rules/evidence.smk"
include: "workflow/rules/durations.smk"


rule all:
    default_target: True
    input:
        rules.majority.input,
        rules.random_keys.input,
        rules.language_model.input,
        rules.statements.input,
        rules.evidence.input,
        rules.durations.output,


onstart:
    # Snakemake's limit of jobs a second leaves a timer behind every finished job; each wakes the scheduler once a
    # second for the rest of the run, a tenth of a core after a hundred jobs. Only clusters need the limit.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None

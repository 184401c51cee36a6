# The whole reproduction: `snakemake --cores all`. Settings are in config.yaml; a preset is laid over it with
# --configfile. What can be asked for is in workflow/rules/targets.smk; `snakemake --cores 1 help` lists it.
from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


# With `--software-deployment-method apptainer` all jobs run in this image, which is made of the Dockerfile:
# `docker build -t layernorm-roles . && apptainer build layernorm-roles.sif docker-daemon:layernorm-roles:latest`.
container: "layernorm-roles.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/text.smk"
include: "workflow/rules/majority.smk"
include: "workflow/rules/random_keys.smk"
include: "workflow/rules/language_model.smk"
include: "workflow/rules/statements.smk"
include: "workflow/rules/pretrained.smk"
include: "workflow/rules/evidence.smk"
include: "workflow/rules/targets.smk"


# This rule stands here because Snakemake takes no default target from an included file.
rule all:
    """The whole reproduction: every table, figure and verdict, and the page that shows them."""
    default_target: True
    input:
        FINISHED,
        f"{FOLDER}/report.html",
        f"{FOLDER}/findings.html",
        f"{FOLDER}/findings.md",


# Any other word is a mistyped target: all files have a folder or an ending. Where this workflow is a module of another,
# that one's files may have neither.
if REPOSITORY == PLACES[0]:

    rule unknown:
        input:
            or_end(no_target),
        output:
            "{word}",
        wildcard_constraints:
            word="[^/.]+",

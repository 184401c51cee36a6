# The whole reproduction: `snakemake --cores all`. Parts of it: `snakemake --cores all majority`, random_keys, ...
# Settings are in config.yaml; a preset is laid over it with --configfile.
from snakemake.utils import min_version

min_version("9.14")


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/majority.smk"


rule all:
    default_target: True
    input:
        rules.majority.input,

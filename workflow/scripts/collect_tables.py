"""One table from the same table of many runs."""

import pandas as pd

from layernorm_roles import store
from layernorm_roles.job import job

with job(snakemake.log[0]):
    table = snakemake.params.table
    parts = pd.concat([store.read(path, table) for path in snakemake.input], ignore_index=True)
    device = ", ".join(sorted({store.about(path)["device"] for path in snakemake.input}))
    seed_rule = store.about(snakemake.input[0])["seed_rule"]
    about = store.provenance(snakemake.params.settings, device, seed_rule)
    store.write(parts, table, snakemake.output[0], about)

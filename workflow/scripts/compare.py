from pathlib import Path

from layernorm_roles.script import job

with job(snakemake):
    from layernorm_roles.evidence.tables.compare import compare

    folder, other = snakemake.params.folder, snakemake.params.against
    if other is None:
        raise ValueError("compare: with what? snakemake --cores all compare --config against=published")
    out = f"{folder}/tables/compare_{Path(other).name}"
    for line in compare(folder, other, f"{out}.csv", f"{out}.md"):
        print(line, flush=True)
    print(f"All claims, side by side: {out}.md", flush=True)

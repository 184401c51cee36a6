from layernorm_roles import store
from layernorm_roles.evidence import statement_findings, tables
from layernorm_roles.job import job

with job(snakemake.log[0]):
    names = snakemake.params.tables
    found = {name: store.read(path, name) for name, path in zip(names, snakemake.input, strict=True)}
    out = snakemake.output
    tables.save(
        statement_findings.findings(found),
        out.csv,
        out.md,
        statement_findings.FORMATS,
        statement_findings.NOTE,
    )
    numbers = found["worked_numbers"].drop(columns="tolerance")
    tables.save(numbers, out.numbers_csv, out.numbers_md, statement_findings.FORMATS)

"""The figures and the readable tables of one room of the evidence."""

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.draw import draw_room

    params = snakemake.params
    draw_room(params.room, {"settings": params.settings}, dict(snakemake.input.items()), snakemake.output)

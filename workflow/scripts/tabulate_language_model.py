from layernorm_roles import store
from layernorm_roles.evidence import language_model
from layernorm_roles.job import job

with job(snakemake.log[0]):
    keys = store.read(snakemake.input.verdicts, "key_selectability")
    tokens = store.read(snakemake.input.tokens, "sentence_tokens")
    paths = iter(snakemake.output)
    for number, csv, md in zip((1, 2, 3, 4), paths, paths, strict=True):
        numbers, text = language_model.table(number, keys, tokens)
        with store.whole(csv) as partial:
            numbers.to_csv(partial, index=False)
        with store.whole(md) as partial:
            partial.write_text(text)

import re
from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    text = 'rule all:\n    """The whole reproduction: every table, figure and verdict, and the page that shows them."""'
    text += Path(snakemake.params.rules).read_text(encoding="utf-8")
    for name, meaning in re.findall(
        r'^(?:use rule \w+ as|rule) (\w+).*:\n    """(.+)"""', text, re.MULTILINE
    ):
        print(f"    {name:18} {meaning}", flush=True)

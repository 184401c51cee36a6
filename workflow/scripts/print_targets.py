import re
from pathlib import Path

from layernorm_roles.script import job

with job(snakemake):
    text = "".join(Path(file).read_text(encoding="utf-8") for file in snakemake.params.rules)
    for name, meaning in re.findall(r'^rule (\w+):\n    """(.+)"""', text, re.MULTILINE):
        print(f"    {name:18} {meaning}", flush=True)

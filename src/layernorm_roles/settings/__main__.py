"""Prints the JSON schema of config.yaml, with which editors complete and check that file."""

import json

from layernorm_roles.settings.json_schema import for_editors

print(json.dumps(for_editors(), indent=1, ensure_ascii=False))

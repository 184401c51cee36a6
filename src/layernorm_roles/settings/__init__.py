"""Pydantic models for config.yaml: one immutable class for each section, with the type, bounds and meaning of each key.

`loading.load` checks the whole configuration before any work starts. `python -m layernorm_roles.settings` prints the
JSON schema, with which editors complete and check config.yaml.

Nothing is imported here: each process needs the classes of one section, and pydantic is slow to build the others.
"""

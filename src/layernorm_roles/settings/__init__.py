"""Pydantic models for config.yaml: one immutable class for each section, with the type, bounds and meaning of each key.

`loading.load` checks a configuration, `python -m layernorm_roles.settings` prints the JSON schema. Nothing is imported
here, since each process needs the classes of one section, and pydantic is slow to build them.
"""

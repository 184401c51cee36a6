"""What config.yaml may say: one frozen class a section, with types, bounds, meanings and units.

`loading.load` checks the whole configuration before any work starts. `python -m layernorm_roles.settings` prints the
JSON schema, with which editors complete and check config.yaml.

Nothing is imported here: each job needs the classes of one section, and pydantic takes its time to build the others.
"""

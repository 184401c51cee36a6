"""The measured numbers of the claims about other documents' statements, computed again with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

RECOMPUTED = {}
"""For each claim the function that computes `measured` from the tables of a reproduction."""

"""Which keys no query can select, with a proof for each; how much attention a key can get; how many to expect."""

from layernorm_roles.selectability.ceilings import Ceilings, ceilings
from layernorm_roles.selectability.ceilings_queries import QueryEllipsoid
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify, certify_many
from layernorm_roles.selectability.gaussian import expected_unselectable

__all__ = [
    "Ceilings",
    "Certificates",
    "QueryEllipsoid",
    "ceilings",
    "certify",
    "certify_many",
    "expected_unselectable",
]

"""Which keys no query can select, with proofs; how much attention a key can get; the law of Gaussian keys."""

from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.selectability.arrays import as_matrix
from layernorm_roles.selectability.ceilings import Ceilings, ceilings
from layernorm_roles.selectability.ceilings_queries import QueryEllipsoid
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify, certify_many

__all__ = [
    "Ceilings",
    "Certificates",
    "QueryEllipsoid",
    "as_matrix",
    "ceilings",
    "certify",
    "certify_many",
    "expected_unselectable",
]

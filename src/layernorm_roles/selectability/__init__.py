"""Proves for every row of a matrix, a key, whether some query can select it, and how much attention it can get.

A query selects a key by giving it a higher dot product than every other key. `certify` says whether any query does,
`ceilings` bounds the softmax weight of each key, and `expected_unselectable` is the expected number of standard
Gaussian keys that no query selects.
"""

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

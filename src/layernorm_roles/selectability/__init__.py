"""Proves which keys, rows of a matrix, some query can select, and how much attention each of them can get.

A query selects a key if their dot product is higher than the query's with every other key. `certify` says for each key
whether such a query exists, `ceilings` bounds the largest softmax weight that a query can give it, and
`expected_unselectable` is the expected number of standard Gaussian keys that no query selects.
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

"""Which keys no query can select, with a proof for each, and how many to expect among Gaussian keys."""

from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify, certify_many
from layernorm_roles.selectability.gaussian import expected_unselectable

__all__ = ["Certificates", "certify", "certify_many", "expected_unselectable"]

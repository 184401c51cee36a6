"""Measures what LayerNorm's two steps, a projection and a scaling of vectors, do for attention in transformers.

It reproduces and extends Brody, Alon, Yahav, "On the Expressivity Role of LayerNorm in Transformers' Attention",
Findings of ACL 2023, arXiv 2305.02582.
"""

from importlib import metadata

try:
    __version__ = metadata.version("layernorm-roles")
except metadata.PackageNotFoundError:  # a checkout that is used without being installed
    __version__ = "unknown"

"""What LayerNorm does for attention: a projection and a scaling, each measured.

Brody, Alon, Yahav, "On the Expressivity Role of LayerNorm in Transformers' Attention",
Findings of ACL 2023, arXiv 2305.02582.
"""

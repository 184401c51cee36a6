"""Compiled CPU kernels, in float32, for attention and cross-entropy in the language models.

`vectors` has the type of a SIMD vector and the operations on it, `softmax` the loops that attention and cross-entropy
share; `attention` and `cross_entropy` have the kernels. Rows of arrays are padded with zeros to whole vectors.
"""

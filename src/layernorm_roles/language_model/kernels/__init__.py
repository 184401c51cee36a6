"""Compiled CPU kernels of the language models, for numbers of float32.

`vectors` has the type of a vector of numbers and the operations on it, `softmax` the loops that attention and
cross-entropy share; `attention` and `cross_entropy` have the kernels. Rows are filled up with zeros to whole vectors.
"""

COMPILING = "the language models' kernels", 8
"""What a user is told while the kernels are compiled: their name, and about how many seconds numba takes."""

"""Compiled CPU kernels of the language models, for numbers of float32.

`vectors` has the type of a vector of numbers and the operations on it, `softmax` the loops that attention and
cross-entropy share; `attention` and `cross_entropy` have the kernels. Rows of whole vectors are rows
that are filled up with zeros to a multiple of LANES.
"""

COMPILING = "the language models' kernels", 8
"""What `compiling.compilation_notice` says about these modules: their name, and about how many seconds numba takes."""

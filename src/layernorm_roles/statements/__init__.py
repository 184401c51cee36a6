"""What other documents say about LayerNorm, measured: one module for each small experiment.

`geometry` measures an essay on LayerNorm as projection, scaling and affine map; `fusion` a question whether W_O is
needed before a feed-forward part; `placement`, `batch_dependence` and `score_scale` lecture notes on the transformer.
Each has a function `write`, which takes the plan of its job, input files and output files.
"""

"""What other documents say about LayerNorm, measured: one module for each small experiment.

`geometry` measures an essay on LayerNorm as projection, scaling and affine map; `fusion` a question whether W_O is
needed before a feed-forward part; `placement`, `batch_dependence`, `score_scale` and `worked_numbers` lecture notes on
the transformer. Each module measures with a function `measure`, and writes the tables with a function `write`.
"""

"""Small experiments on what other documents say about LayerNorm, one module for each.

`geometry` tests an essay on LayerNorm as projection, scaling and affine map; `fusion` a question whether W_O is needed
before a feed-forward part; `placement`, `batch_dependence` and `score_scale` test lecture notes on the transformer.
"""

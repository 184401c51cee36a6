"""Small experiments on what other documents say about LayerNorm.

`geometry` tests an essay on LayerNorm as projection, scaling and affine map; `fusion` a question whether W_O is needed
before a feed-forward part; `networks` and `random_vectors` test lecture notes on the transformer.
"""

"""Figures of the experiments on what other documents say about LayerNorm, a module for each experiment."""

"""The attention heads of a model: which of their keys some query selects, and how much attention each key can get.

A model is anything with a method `record` that returns a `Layer` for each layer of attention, given a text's token ids.
"""

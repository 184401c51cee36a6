"""The attention heads of a model: which of their keys some query selects, and how much attention each key can get.

A model is anything with a method `record` that takes the token ids of a text and gives a `Layer` for each layer of
attention: the language models of `language_model`, or a model of transformers that `pretrained.recording` loads.
"""

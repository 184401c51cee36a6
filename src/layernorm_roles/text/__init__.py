"""Texts for training language models and for testing their attention: documents, tokenizers and token streams."""

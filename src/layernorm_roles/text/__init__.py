"""Text for the language models: documents, tokenizer, token streams for training, and contexts for tests of keys."""

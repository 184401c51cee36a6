"""Text for the language models: documents, tokenizer, token streams to train on, and texts to test models with."""

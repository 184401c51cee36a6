"""Real text for the language models: documents, a tokenizer, token streams, and contexts split by document."""

"""Real text for the language models: documents, a tokenizer, and contexts split by document."""

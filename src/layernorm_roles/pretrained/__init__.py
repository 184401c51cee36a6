"""Keys and queries of pretrained transformers: which keys of their attention heads some query can select."""

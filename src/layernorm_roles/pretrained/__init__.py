"""Keys and queries of pretrained models: which keys of their heads some query can select."""

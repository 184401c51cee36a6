"""The paper's language models, with and without the norm's scaling: training, and the keys of every layer."""

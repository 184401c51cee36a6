"""The paper's language models, GPT-2 and BERT, with variants of the norm: training, and the keys of every layer."""

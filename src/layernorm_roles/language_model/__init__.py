"""The paper's language models, small GPT-2s and BERTs: training, and tests which attention keys a query can select."""

"""The paper's language models, small GPT-2s and BERTs: their training, and the tests of their attention keys."""

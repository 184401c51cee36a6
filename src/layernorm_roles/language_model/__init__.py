"""Small GPT-2s and BERTs as in Brody et al. (2023): training, and tests of which attention keys a query can select."""

"""The majority task of Brody et al. (2023): a one-layer transformer learns to name a sequence's most frequent token."""

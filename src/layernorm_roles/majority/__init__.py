"""The majority task: a one-layer transformer says which class is most frequent (Brody et al. 2023, section 3)."""

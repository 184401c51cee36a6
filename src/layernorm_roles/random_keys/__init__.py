"""The experiment on random keys (Brody et al. 2023, Figures 1c and 1d): which Gaussian keys can some query select?"""

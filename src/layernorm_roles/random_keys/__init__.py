"""The experiment on random keys (Figures 1c and 1d): which Gaussian keys can be selected, after each norm?"""

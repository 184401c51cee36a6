"""Numbers from the tables of a reproduction: effects, intervals, convergence, shares.

Nothing here draws, writes prose or holds a threshold of a verdict on a claim.
"""

"""Numbers from the tables of a reproduction: effects, intervals, convergence, shares.

Nothing here draws, writes prose or holds a threshold of a verdict; figures, tables and claims build on it.
"""

"""The report of a reproduction as one page, the kept reproduction in results/published/, and the README's table."""

"""The report and the findings of a reproduction as pages, and the findings in the README."""

"""The report and the findings of a reproduction as pages, the kept reproduction, and the README's findings."""

"""Readable tables: each module makes those of one experiment; `readable` writes them as CSV, Markdown and HTML."""

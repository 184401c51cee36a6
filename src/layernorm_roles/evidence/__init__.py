"""Figures, tables and verdicts, from the Parquet tables alone: no training code, no torch."""

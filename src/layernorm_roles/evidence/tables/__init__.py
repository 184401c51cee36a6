"""Readable tables: `registry` says which there are, `structure` what one consists of, the others make them."""

"""The figures: `registry` says which ones a reproduction has, the other modules draw them; nothing here judges."""

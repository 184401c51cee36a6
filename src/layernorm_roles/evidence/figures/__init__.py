"""The figures: each module draws those of one experiment with the theme of `style`; nothing here judges."""

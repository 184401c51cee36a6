"""`python tests/mutants --jobs 2` tries every mutant; `--help` says how to try some."""

from machine import main

raise SystemExit(main())

"""The part of the README that is made, and that it is up to date."""

from pathlib import Path

import pytest
from kept import TABLES

from layernorm_roles.evidence.page import findings, readme
from layernorm_roles.evidence.tables.verdicts import judged

ROOT = Path(__file__).parents[3]


def test_the_findings_replace_what_stands_between_their_markers():
    text = f"# Title – ü\n\n{readme.BEGIN}\nyesterday\n{readme.END}\nmore\n"
    made = readme.replaced(text, "- today\n")
    assert made == f"# Title – ü\n\n{readme.BEGIN}\n- today\n{readme.END}\nmore\n"
    with pytest.raises(ValueError, match="expected the lines"):
        readme.replaced("# Title\n", "")


def test_the_readme_is_up_to_date():
    """If this fails: snakemake --cores 1 readme"""
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not TABLES["claims"].empty
    assert readme.replaced(shown, findings.markdown(judged(TABLES["claims"]))) == shown

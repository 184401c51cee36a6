"""The part of the README that is made, and that it is up to date."""

from pathlib import Path

import pytest
from kept import TABLES

from layernorm_roles import store
from layernorm_roles.evidence.page import findings, readme
from layernorm_roles.evidence.tables.verdicts import judged

ROOT = Path(__file__).parents[3]


def test_the_findings_replace_what_stands_between_their_markers():
    text = f"# Title – ü\n\n{readme.BEGIN}\nyesterday\n{readme.END}\nmore\n"
    made = readme.replaced(text, "- today\n")
    assert made == f"# Title – ü\n\n{readme.BEGIN}\n- today\n{readme.END}\nmore\n"
    with pytest.raises(ValueError, match="expected the lines"):
        readme.replaced("# Title\n", "")


def test_an_update_writes_the_findings_of_a_table_of_claims(world, tmp_path):
    path, claims = tmp_path / "README.md", world.inputs["claims"]
    path.write_text(f"ü\n{readme.BEGIN}\n{readme.END}\n", encoding="utf-8")
    readme.update(path, claims)
    content = findings.markdown(judged(store.read(claims, "claims")))
    assert path.read_text(encoding="utf-8") == f"ü\n{readme.BEGIN}\n{content}{readme.END}\n"


def test_the_readme_is_up_to_date():
    """If this fails: snakemake --cores 1 readme"""
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not TABLES["claims"].empty
    assert readme.replaced(shown, findings.markdown(judged(TABLES["claims"]))) == shown

"""The part of the README that is made, and that it is up to date."""

from pathlib import Path

import pytest
from kept import TABLES
from tiny_world import claims

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


def test_an_update_writes_the_findings_of_a_table_of_claims(tmp_path):
    path, table = tmp_path / "README.md", tmp_path / "claims.parquet"
    frame = claims().assign(verdict="not tested").set_index("claim", drop=False)
    frame.loc["faster", ["verdict", "measured"]] = ["confounded", 3.25]
    store.write(frame, "claims", table, {})
    path.write_text(f"ü\n{readme.BEGIN}\n{readme.END}\n", encoding="utf-8")
    readme.update(path, table)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert (lines[:2], lines[3:]) == (["ü", readme.BEGIN], [readme.END]) and "3.25×" in lines[2]


def test_the_readme_is_up_to_date():
    """If this fails: snakemake --cores 1 readme"""
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not TABLES["claims"].empty
    assert readme.replaced(shown, findings.markdown(judged(TABLES["claims"]))) == shown

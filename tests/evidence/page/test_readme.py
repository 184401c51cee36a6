"""The made parts of the README, and that they are up to date."""

import re
from pathlib import Path

import pytest
from tiny_world import claims

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.page import readme

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "results/published/parquet/claims.parquet"
needs_claims = pytest.mark.skipif(not KEPT.exists(), reason="results/published has no claims yet")


def test_the_table_has_a_row_for_each_claim_with_the_control_beside_the_measurement():
    table = claims()
    table.loc[0, "statement"] = "a | b"
    lines = readme.verdicts(table).splitlines()
    assert len(lines) == 2 + len(CLAIMS)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}
    assert lines[0] == "| Claim | Reported | Measured, 95 % interval | Control, 95 % interval | Verdict |"
    assert (
        lines[2] == "| a \\| b | 3 times the steps | 3.25× [2.50, 4.00] | 1.12× [−0.875, 1.38] | reproduced |"
    )
    untested = next(line for line in lines if line.endswith("not tested |"))
    assert "| – | – | not tested |" in untested


def test_the_made_parts_replace_what_stands_between_their_markers(tmp_path):
    marked = [f"<!-- {part}:begin -->\nyesterday\n<!-- {part}:end -->\n" for part in ("verdicts", "layout")]
    text = "\n".join(["# Title – ü\n", *marked])
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    (package / "b.py").write_text('"""What b does.\n\nMore."""\n')
    (package / "room/__init__.py").write_text('"""A room."""\n')
    (package / "room/c.py").write_text("x = 1\n")
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    store.write(claims(), "claims", tmp_path / "claims.parquet", {})
    readme.update(tmp_path / "README.md", tmp_path / "claims.parquet", package)
    made = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert made.startswith("# Title – ü\n\n<!-- verdicts:begin -->\n| Claim |") and "yesterday" not in made
    lines = made.partition("```text\n")[2].splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["src/package/"],
        ["b.py", "What", "b", "does."],
        ["room/", "A", "room."],
        ["c.py"],
    ]
    readme.update(tmp_path / "README.md", tmp_path / "claims.parquet", package)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == made
    with pytest.raises(ValueError, match="expected the lines"):
        readme.replaced("# Title\n", "verdicts", "")


@needs_claims
def test_the_readme_is_up_to_date():
    """If this fails: snakemake --cores all readme"""
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    verdicts = readme.verdicts(store.read(KEPT, "claims"))
    assert readme.replaced(shown, readme.VERDICTS, verdicts) == shown
    assert readme.replaced(shown, readme.LAYOUT, readme.layout(ROOT / "src/layernorm_roles")) == shown

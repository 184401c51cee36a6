"""The made parts of the README, and that they are up to date."""

import re
from pathlib import Path

import numpy as np
import pytest
from tiny_world import claims

from layernorm_roles import store
from layernorm_roles.evidence.page import readme

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "results/published/parquet/claims.parquet"
needs_claims = pytest.mark.skipif(not KEPT.exists(), reason="results/published has no claims yet")


def test_the_table_has_a_row_for_each_claim_that_carries_the_findings():
    table = claims().set_index("claim", drop=False)
    table.loc["faster", "statement"] = "a | b"
    table.loc["faster", ["verdict", "also_passed_by"]] = "reproduced", "untrained models"
    table.loc["heads", ["reported", "also_passed_by", "verdict"]] = np.nan, None, "partial"
    lines = readme.verdicts(table.reset_index(drop=True)).splitlines()
    assert len(lines) == 2 + len(readme.CARRYING) == 13
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {9}
    faster = [cell.strip() for cell in re.split(r"(?<!\\)\|", lines[2])[1:-1]]
    assert faster[0] == "a \\| b" and faster[2] == "3.25× [2.50, 4.00]"
    assert faster[4].startswith("1.12× [−0.875, 1.38] (scale")
    size = np.log([3.25, 2.5, 4]) / np.log(6.5) * 100
    assert faster[5:] == [
        "3",
        "{:.0f}\u00a0% [{:.0f}, {:.0f}]".format(*size),
        "reproduced; untrained models pass too",
    ]
    heads = lines[2 + readme.CARRYING.index("heads")]
    assert heads.endswith("| – | partial |"), "a claim whose source reports no number has no relative effect"


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

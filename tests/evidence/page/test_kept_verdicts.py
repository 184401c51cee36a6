"""A claim that a reproduction leaves open: the kept run's verdict and number stand beside it, and are called so."""

import numpy as np
import pandas as pd
import pytest
from tiny_world import OPTIONS, claims, parsed, rows, settings, words

from layernorm_roles import exhibits, files, store
from layernorm_roles.evidence import draw
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.page import page

NUMBERS = ["measured", "ci_low", "ci_high", "control_measured", "control_low", "control_high"]
LACKING, OPEN, UNKNOWN = "faster", "project_values", "loss_gap"
"""Claims without runs, without a verdict in spite of runs, and without a verdict of the kept run either."""


@pytest.fixture
def kept(tmp_path):
    """The folder of a kept run in which no two claims have equal numbers."""
    numbers = {"measured": np.arange(len(CLAIMS)) + 100.25, "ci_low": 50.5, "ci_high": np.nan}
    table = pd.DataFrame({"claim": [each.name for each in CLAIMS], "verdict": "partial", **numbers})
    table.loc[table.claim == LACKING, ["measured", "ci_low", "ci_high"]] = [2.25, 1.75, 2.875]
    table.loc[table.claim == OPEN, ["verdict", "measured", "ci_low", "ci_high"]] = ["holds", 21.5, 20.5, 22.5]
    table.loc[table.claim == UNKNOWN, "verdict"] = "not tested"
    files.write_text(tmp_path / "kept/settings.json", "{}")
    files.write_text(tmp_path / "kept/tables/claims.csv", table.to_csv(index=False))
    return tmp_path / "kept"


@pytest.fixture
def table(tmp_path):
    """The path of the table claims of a reproduction that lacks the runs of two claims and leaves a third open."""
    frame = claims().set_index("claim", drop=False)
    frame.loc[[LACKING, UNKNOWN], NUMBERS] = np.nan
    frame.loc[OPEN, "measured"] = np.inf
    frame.loc[[LACKING, OPEN, UNKNOWN], ["verdict", "also_passed_by"]] = ["not tested", None]
    frame.loc[[LACKING, UNKNOWN], "n_seeds"] = 0
    path = tmp_path / "default/parquet/claims.parquet"
    store.write(frame, "claims", path, {"config": "{}", "git_commit": "0"})
    return path


def planned(kept) -> dict[str, dict]:
    here = exhibits.Exhibits("results/here", settings(), ("majority_metrics",))
    sources = {"majority_metrics": ("majority", "hash")}
    return exhibits.plans(here, sources, OPTIONS, exhibits.Exhibits.kept(kept).verdicts)


def pages(of: dict, table):
    paths = [table.parents[1] / f"{name}.html" for name in ("report", "findings")]
    shown = of | {"tables": ["claims"], "figures": []}
    page.write(shown, {"claims": table, "figures": []}, *paths)
    return [parsed(path.read_text(encoding="utf-8")) for path in paths]


def judgements(report) -> dict[str, str]:
    """The last cell of each row of the table of verdicts, by the name of its claim."""
    found = report.find(".//table[@class='verdicts']").iter("tr")
    return {row.find(".//a").get("href")[1:]: words(row.findall("td")[-1]) for row in found if row.find("td")}


def test_the_verdict_and_the_number_of_the_kept_run_stand_beside_it(kept, table):
    report, findings = pages(planned(kept)["page"], table)
    shown, found = judgements(report), "not run here kept run: partial 2.25× [1.75, 2.88]"
    assert (shown[LACKING], shown[UNKNOWN]) == (found, "not run here")
    assert shown[OPEN] == "not tested kept run: holds 21.5 points [20.5, 22.5]"
    assert words(report.find(f".//article[@id='{LACKING}']/header/p")) == found
    assert "kept run" not in "".join(text for text in shown.values() if not text.startswith("not "))
    assert "“Not run here”: " in words(report) and "; more seeds, " in words(findings)
    effects = {row[0]: [*row[1:3], row[-1]] for row in rows(findings) if row}
    known = ["kept run: 2.25× [1.75, 2.88]", "–", "not run here; kept run: partial"]
    assert effects["steps without the projection"] == known
    assert effects["accuracy that projected values cost"][0] == "∞ points [2.50, 4.00]", "its own number"
    assert report.find(".//tr[@data-effect='Infinity']//a").get("href") == f"#{OPEN}"
    ends = {text.partition(".")[0]: text for text in map(words, findings.findall(".//p[@class='end']"))}
    said = ends["Decided by the kept run alone"]
    assert "by less than half of what the paper reports. partial, 2.25× [1.75, 2.88]" in said
    assert said.endswith("holds, 21.5 points [20.5, 22.5]")
    links = [link.get("href") for link in findings.findall(".//p[@class='end']/a")]
    assert links == [f"report.html#{claim}" for claim in (LACKING, OPEN)]
    titles = ("the gap of Figure 4", "where the projection", "training faster")
    assert [title in ends["Not decided"] for title in titles] == [True, False, False]


def test_the_table_of_every_claim_says_so(kept, table, tmp_path):
    paths = [tmp_path / f"tables/claims.{kind}" for kind in ("md", "csv")]
    draw.draw_groups(planned(kept)["draw/verdicts"], [table], paths)
    lines = [" ".join(line.split()) for line in paths[0].read_text(encoding="utf-8").splitlines()]
    found = {line.split(" | ")[0]: line for line in lines}
    assert "| not run here; kept run: partial, 2.25× [1.75, 2.88] |" in found[f"| {LACKING}"]
    assert "| not tested; kept run: holds, 21.5 points [20.5, 22.5] |" in found[f"| {OPEN}"]
    verdicts = pd.read_csv(paths[1]).set_index("claim").verdict
    assert verdicts[LACKING] == verdicts[OPEN] == "not tested"


def test_without_a_kept_run_the_pages_are_whole_too(kept, table, tmp_path):
    plans, with_kept = planned(tmp_path / "nowhere"), planned(kept)
    report, findings = pages(plans["page"], table)
    assert judgements(report)[LACKING] == "not run here"
    assert "kept run" not in words(report) + words(findings) and "Not decided." in words(findings)
    assert {job for job, each in with_kept.items() if each != plans[job]} == {"draw/verdicts", "page"}
    assert plans["draw/verdicts"]["made_by"].keys() == {"claims"}
    tables = ["majority_metrics", "claims", "comparisons"]
    figures = ["majority_by_rate", "majority_curves", "claims_forest"]
    shown = {"tables": tables, "figures": figures, "options": OPTIONS}
    assert plans["page"].items() >= shown.items()


def test_a_workflow_ends_with_how_often_there_is_each_verdict(kept):
    files.write_text(kept / "report.html", "")
    words = f"{len(CLAIMS) - 2} partial, 1 holds, 1 not tested"
    report = f"The report: {kept}/report.html"
    assert exhibits.Exhibits.kept(kept).ending() == [f"{kept}: {len(CLAIMS)} claims: {words}", report]

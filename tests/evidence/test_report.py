"""The page: valid, self-contained, and nothing in the data can become markup."""

import doctest
import json
import re
import shutil

import html5lib
import pytest
from conftest import HOSTILE

from layernorm_roles import store
from layernorm_roles.evidence import claims, report


@pytest.fixture(scope="module")
def tree(page):
    """Parsed by the rules of HTML; any parse error fails the tests."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def test_it_is_valid_html_with_one_heading_and_a_language(tree):
    assert tree.get("lang") == "en"
    assert len(tree.findall(".//h1")) == len(tree.findall(".//main")) == 1


def test_ids_are_unique_and_links_stay_on_the_page(tree):
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for link in tree.iter("a"):
        assert link.get("href").startswith("#") and link.get("href")[1:] in ids
    for element in tree.iter():
        for name in (element.get("aria-labelledby"), element.get("aria-describedby")):
            assert name is None or name in ids


def test_every_picture_is_inside_the_page_and_has_a_text(tree):
    pictures = list(tree.iter("img"))
    assert len(pictures) > 10
    for picture in pictures:
        assert picture.get("src").startswith("data:image/png;base64,")
        assert picture.get("alt") and int(picture.get("width")) and int(picture.get("height"))


def test_nothing_is_fetched(tree, page):
    for element in tree.iter():
        for attribute in ("src", "href", "action", "data", "poster", "srcset"):
            value = element.get(attribute)
            assert value is None or value.startswith(("data:", "#")), (element.tag, value[:60])
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest|import\(", page)


def test_hostile_names_stay_text(tree, page):
    assert HOSTILE not in page
    scripts = [script.text for script in tree.iter("script")]
    assert len(scripts) == 2, "the data of the view, and the page's own script"
    assert "alert" not in scripts[1]
    data = json.loads(scripts[0])
    assert HOSTILE in [variant["name"] for variant in data["variants"]]
    text = "".join(tree.find("body").itertext())
    assert text.count("alert(") >= 4, "in the reason, the table, the caption and the variant's label"


def test_every_claim_is_there_with_its_verdict(tree, run):
    table = store.read(run / "parquet/claims.parquet", "claims").set_index("claim")
    articles = {article.get("id"): article for article in tree.iter("article")}
    for claim in claims.CLAIMS:
        badge = articles[claim.name].find(".//span")
        assert badge.text == table.verdict[claim.name]
        assert claim.target in articles[claim.name].findall(".//code")[-1].text
    assert set(table.verdict) >= {"reproduced", "confounded", "not tested"}


def test_a_figure_of_several_claims_is_there_once(page):
    assert page.count('id="statement_fusion"') == 1
    assert page.count('href="#statement_fusion"') == 1


def test_the_view_has_the_vectors_and_says_what_they_show(tree):
    data = json.loads(next(tree.iter("script")).text)
    kept = {variant["name"]: variant for variant in data["variants"]}
    assert [len(kept["layernorm"]["runs"]), len(kept["layernorm"]["runs"][0]["keys"])] == [3, 10]
    assert "all keys lie on one plane" in kept["layernorm"]["text"]
    assert "do not lie on a plane" in kept["scale"]["text"]


def test_the_time_taken_is_that_of_the_run_not_of_redrawing_it(run, tmp_path):
    assert report.time_taken(run).jobs.sum() == 2
    kept = tmp_path / report.KEPT
    shutil.copytree(run / "benchmarks", kept / "benchmarks")
    assert report.time_taken(kept).empty
    (kept / "tables").mkdir()
    (kept / "tables/durations.csv").write_text("rule,jobs,wall_minutes,largest_memory_mb\nall,7,1,1\n")
    assert report.time_taken(kept).jobs.sum() == 7


def test_the_same_files_give_the_same_bytes(run, page, tmp_path):
    report.write(run, tmp_path / "again.html", {"figure_2a": f"Loss {HOSTILE}"})
    assert (tmp_path / "again.html").read_text() == page


def test_a_run_with_nothing_but_claims_has_a_page(run, tmp_path):
    (tmp_path / "parquet").mkdir()
    (tmp_path / "parquet/claims.parquet").write_bytes((run / "parquet/claims.parquet").read_bytes())
    report.write(tmp_path, tmp_path / "report.html", {})
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(
        (tmp_path / "report.html").read_text()
    )
    assert not list(page.iter("canvas")) and not list(page.iter("script"))


def test_examples_in_the_docstrings():
    assert doctest.testmod(report).failed == 0

"""The page: valid, self-contained, nothing in the data can become markup, and its numbers are those of the tables."""

import doctest
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import html5lib
import pytest
from tiny_world import HOSTILE, OPTIONS, png

from layernorm_roles import files, store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.page import page as report
from layernorm_roles.evidence.page import text, vectors
from layernorm_roles.evidence.tables.structure import Sentences, Span

ROOT = Path(__file__).parents[3]


def parsed(page: str):
    """The page by the rules of HTML; any parse error raises."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


@pytest.fixture(scope="module")
def tree(world):
    return parsed(world.page)


@pytest.fixture(scope="module")
def articles(tree):
    return {article.get("id"): article for article in tree.iter("article")}


def words(element) -> str:
    return " ".join("".join(element.itertext()).split())


def rows(element) -> list[list[str]]:
    return [[words(cell) for cell in row.iter("td")] for row in element.iter("tr")]


def facts(article) -> dict[str, str]:
    """The terms of an article's list and what stands beside them."""
    return {
        words(term): words(value) for term, value in zip(article.iter("dt"), article.iter("dd"), strict=True)
    }


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


def test_every_figure_is_inside_the_page_once_with_its_caption(tree, world):
    pictures = list(tree.iter("img"))
    assert len(pictures) == len(world.reproduction.figures) > 5
    for picture in pictures:
        assert picture.get("src").startswith("data:image/png;base64,")
        assert picture.get("alt") and int(picture.get("width")) and int(picture.get("height"))


def test_nothing_is_fetched(tree, world):
    for element in tree.iter():
        for attribute in ("src", "href", "action", "data", "poster", "srcset"):
            value = element.get(attribute)
            assert value is None or value.startswith(("data:", "#")), (element.tag, value[:60])
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest|import\(", world.page)


def test_hostile_names_stay_text(tree, world):
    assert HOSTILE not in world.page
    scripts = [script.text for script in tree.iter("script")]
    assert len(scripts) == 2, "the data of the view, and the page's own script"
    assert "alert" not in scripts[1]
    assert any(HOSTILE in view["name"] for view in json.loads(scripts[0])["views"])
    shown = words(tree.find("body"))
    for place in ("Reproduction “{}”", "{} · commit", "It is so {}", "Experiment {}"):
        assert place.format(HOSTILE) in shown.replace("’", "'"), place
    assert ["three", "3", "0.001", HOSTILE, "1", "2 of 2"] in [row[:6] for row in rows(tree)]


def test_every_claim_is_there_with_verdict_numbers_control_and_setting(articles, world):
    table = store.read(world.reproduction.tables["claims"], "claims").set_index("claim")
    assert list(articles) == [
        claim.name
        for part in ("projection", "scaling", "documents")
        for claim in CLAIMS
        if claim.part == part
    ]
    for claim in CLAIMS:
        shown = facts(articles[claim.name])
        assert articles[claim.name].find(".//span").text == table.verdict[claim.name]
        assert shown["Setting"] == "twice as many seeds"
        assert shown["Rule"].endswith("It was fixed before the first look at data of this kind.")
        if table.verdict[claim.name] == Verdict.NOT_TESTED:
            assert shown["Measured"].startswith("nothing") and "[" not in shown["Measured"] + shown["Control"]
        else:
            unit = claim.unit.strip()
            assert re.match(rf"3\.25\s?{re.escape(unit)} \[2\.50, 4\.00\] — ", shown["Measured"])
            assert re.match(rf"1\.13?2?\s?{re.escape(unit)} \[−0\.875, 1\.38\] — ", shown["Control"])


def test_the_table_of_verdicts_has_a_row_and_six_cells_for_each_claim(tree):
    shown = [row for row in rows(tree.find(".//table[@class='verdicts']")) if row]
    assert len(shown) == len(CLAIMS) and {len(row) for row in shown} == {6}


def test_what_else_passes_a_test_stands_beside_its_verdict(tree):
    shown = [row for row in rows(tree.find(".//table[@class='verdicts']")) if row]
    for row in shown:
        assert row[-1].endswith("untrained models pass too") == row[-1].startswith("reproduced")


def test_every_verdict_word_is_counted_and_defined_once(tree):
    counted = {
        words(item).split(" ", 1)[1]: int(item.find("b").text) for item in tree.find(".//ul[@class='tally']")
    }
    assert sum(counted.values()) == len(CLAIMS) and set(counted) == set(map(str, Verdict))
    (meanings,) = tree.findall(".//dl[@class='meanings']")
    assert [words(term) for term in meanings.iter("dt")] == list(map(str, MEANINGS))


def test_a_figure_of_several_claims_is_there_once(world):
    shown = sum("statement_fusion" in claim.figures for claim in CLAIMS)
    assert shown > 1
    assert world.page.count('id="statement_fusion"') == 1
    assert world.page.count('href="#statement_fusion"') == shown - 1


def test_figures_that_belong_to_no_claim_end_their_part(tree):
    (part,) = [section for section in tree.iter("section") if section.get("aria-labelledby") == "projection"]
    last = [figure.get("id") for figure in part.findall("figure")]
    assert "majority_three_loss" in last and f"majority_{HOSTILE}_angle" in last


def test_readable_tables_are_computed_from_the_parquet_files(articles, tree):
    shown = rows(articles["faster"].find(".//details"))
    assert ["three", "3", "0.001", "LayerNorm", "1", "2 of 2"] in [row[:6] for row in shown]
    assert not articles["table_1"].findall(".//details"), "there are no keys of language models"


def test_unselectable_tokens_are_marked_in_table_3():
    spans = [Span("a * <b> w", False), Span("ire & **", True), Span("□ ", False)]
    macros = report.environment().globals["structure"]
    fragment = html5lib.parseFragment(
        macros.readable([Sentences([spans, spans])]), namespaceHTMLElements=False
    )
    items = list(fragment.iter("li"))
    assert [words(item) for item in items] == 2 * ["a * <b> wire & **□"]
    assert [mark.text for mark in items[0].iter("mark")] == ["ire & **"]


def test_the_view_has_the_experiments_in_three_dimensions_whatever_their_names(tree):
    data = json.loads(next(tree.iter("script")).text)
    views = {view["name"]: view for view in data["views"]}
    assert list(views) == ["three layernorm", "three scale", f"three {HOSTILE}"]
    assert [len(views["three layernorm"]["runs"]), len(views["three layernorm"]["runs"][0]["keys"])] == [
        3,
        10,
    ]
    assert "all keys lie on one plane" in views["three layernorm"]["text"]
    assert "do not lie on a plane" in views["three scale"]["text"]
    assert len({view["colour"] for view in views.values()}) == 3


def test_views_of_several_experiments_say_which(world):
    frame = store.read(world.reproduction.tables["majority_vectors"], "majority_vectors")
    frame = frame[frame.vector.map(len) == 3]
    views = vectors.views(frame.assign(experiment=frame.seed.map({0: "a", 1: "a", 2: "b"})))
    assert [view["label"] for view in views][:4:3] == ["a, LayerNorm", "b, LayerNorm"]
    assert [len(view["runs"]) for view in views] == [2, 2, 2, 1, 1, 1]


def test_the_time_taken_is_that_of_the_file(tree):
    (section,) = [
        section for section in tree.iter("section") if section.get("aria-labelledby") == "provenance"
    ]
    assert ["train", "7", "90 min", "512"] in rows(section)


def test_equal_files_give_equal_bytes(world, tmp_path):
    report.write(world.reproduction, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == world.page


def test_a_reproduction_with_nothing_but_claims_has_a_page(world, tmp_path):
    tables = {"claims": world.reproduction.tables["claims"]}
    report.write(
        replace(world.reproduction, tables=tables, figures={}, durations=None), tmp_path / "report.html"
    )
    page = parsed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not list(page.iter("canvas")) and not list(page.iter("script"))


def test_a_damaged_figure_is_refused(world, tmp_path):
    path = tmp_path / "figure.png"
    with files.atomic_write(path) as partial:
        partial.write_bytes(png(7, 4))
    path.write_bytes(png(7, 5))
    name = next(iter(world.reproduction.figures))
    with pytest.raises(ValueError, match=r"figure\.png: damaged"):
        report.write(replace(world.reproduction, figures={name: path}), tmp_path / "report.html")


def test_commands_name_their_target_before_the_options(tree):
    commands = {code.text for code in tree.iter("code") if code.text.startswith("snakemake")}
    targets = {claim.target for claim in CLAIMS}
    assert commands == {
        f"snakemake --cores all {OPTIONS}",
        *(f"snakemake --cores all {target} {OPTIONS}" for target in targets),
    }


@pytest.mark.parametrize("target", ["", *sorted({claim.target for claim in CLAIMS})])
def test_every_printed_command_plans_a_run(target):
    command = [
        sys.executable,
        "-m",
        *shlex.split(text.command(target, OPTIONS)),
        "--dry-run",
        "--quiet",
        "all",
    ]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]


def test_examples_in_the_docstrings():
    assert doctest.testmod(text).failed == 0 < doctest.testmod(text).attempted

"""The page: valid, nothing is fetched, no data can become markup, and its numbers are those of the tables."""

import doctest
import json
import re
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import html5lib
import numpy as np
import pandas as pd
import pytest
from tiny_world import FOLDER, HOSTILE, OPTIONS, parsed, png, rows, words
from tiny_world import vectors as table_of_vectors

from layernorm_roles import files, store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.page import page as report
from layernorm_roles.evidence.page import sections, text, vectors
from layernorm_roles.evidence.page.text import RELEASED_CODE, SOURCES, source_of
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.typography import typeset

ROOT = Path(__file__).parents[3]


def written(world, folder, inputs=None, **changed) -> str:
    """The report of the world with a changed plan or other inputs, written to a folder."""
    pages = [folder / f"{name}.html" for name in ("report", "findings")]
    report.write(world.plan | changed, world.inputs | (inputs or {}), *pages)
    return pages[0].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tree(world):
    return parsed(world.page)


@pytest.fixture(scope="module")
def articles(tree):
    return {article.get("id"): article for article in tree.iter("article")}


def words_of(text: str) -> str:
    """The text as it reads on the page."""
    return typeset(text).replace("W_O", "WO").replace("\u00a0", " ")


def test_it_has_one_heading_and_a_language(tree):
    """`parsed` raises for all that is no valid HTML."""
    assert tree.get("lang") == "en"
    assert len(tree.findall(".//h1")) == len(tree.findall(".//main")) == 1


def test_ids_are_unique_and_links_lead_somewhere(tree):
    """Links lead to a place on the page, to files of the reproduction beside it, or to the sources."""
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    outside = {source["address"] for source in SOURCES if "address" in source} | {RELEASED_CODE}
    beside = re.compile(r"(findings\.html|figures/[^/]+\.pdf|tables/[^/]+\.csv|parquet/\w+\.parquet)$")
    for link in tree.iter("a"):
        address = link.get("href")
        if address.startswith("#"):
            assert address[1:] in ids
        else:
            assert address in outside or beside.match(unquote(address)), address
    assert outside <= {link.get("href") for link in tree.iter("a")}
    for element in tree.iter():
        for name in (element.get("aria-labelledby"), element.get("aria-describedby")):
            assert name is None or name in ids


def test_every_figure_is_on_the_page_once_and_files_lie_beside_figures_and_tables(tree, world):
    pictures = list(tree.iter("img"))
    sources = {picture.get("src") for picture in pictures}
    assert len(pictures) == len(sources) == len(world.plan["figures"]) > 3
    for picture in pictures:
        assert (world.folder / unquote(picture.get("src"))).read_bytes().startswith(b"\x89PNG")
        assert picture.get("alt") and int(picture.get("width")) and int(picture.get("height"))
    tables = [part for part in tree.iter("details") if part.get("class") == "table"]
    for element in (*tree.iter("figure"), *tables):
        (files,) = [span for span in element.iter("span") if span.get("class") == "files"]
        endings = [link.get("href").rpartition(".")[2] for link in files.iter("a")]
        assert endings[0] == ("pdf" if element.tag == "figure" else "csv")
        assert set(endings[1:]) <= {"parquet"}


def test_hostile_names_stay_text(tree, world):
    assert HOSTILE not in world.page
    scripts = [script.text for script in tree.iter("script")]
    assert len(scripts) == 3, "the data of the view, and the page's own scripts"
    assert "alert" not in scripts[1] + scripts[2]
    assert any(HOSTILE in view["name"] for view in json.loads(scripts[0])["views"])
    shown = words(tree.find("body"))
    assert f"Reproduction “{FOLDER}”" in shown
    for place in ("{} · commit", "It is so {}"):
        assert place.format(HOSTILE) in shown.replace("’", "'"), place
    assert ["three", HOSTILE, "3", "0.001", "1", "2 of 2"] in [row[:6] for row in rows(tree)]


def test_every_claim_is_there_with_verdict_numbers_control_and_setting(articles, world, tree):
    repeated = {}
    for group in tree.findall(".//div[@class='group']"):
        first, *others = (article.get("id") for article in group.findall("article"))
        repeated |= dict.fromkeys(others, first)
    rules = {claim.name: words_of(claim.rule) for claim in CLAIMS}
    table = store.read(world.inputs["claims"], "claims").set_index("claim")
    assert set(articles) == {claim.name for claim in CLAIMS} and len(articles) == len(CLAIMS)
    for claim in CLAIMS:
        terms, values = (map(words, articles[claim.name].iter(tag)) for tag in ("dt", "dd"))
        shown = dict(zip(terms, values, strict=True))
        assert articles[claim.name].find(".//a[@href]").text == table.verdict[claim.name]
        assert shown["Claimed in"] == words_of(claim.source)
        first = repeated.get(claim.name)
        assert shown.get("Setting", "as above") == ("as above" if first else "twice as many seeds")
        late = table.rule_fixed[claim.name] == "after"
        rule = "As above." if first and rules[first] == rules[claim.name] else rules[claim.name]
        assert shown["Rule"] == f"{rule}{' This rule was fixed after the run began.' * late}"
        assert ("Role" in shown) == claim.primary
        if table.verdict[claim.name] == Verdict.NOT_TESTED:
            assert shown["Measured"].startswith("nothing") and "[" not in shown["Measured"] + shown["Control"]
        else:
            unit = claim.unit.strip()
            assert re.match(rf"3\.25\s?{re.escape(unit)} \[2\.50, 4\.00\]", shown["Measured"])
            assert re.match(rf"1\.13?2?\s?{re.escape(unit)} \[−0\.875, 1\.38\]", shown["Control"])


def test_the_table_of_verdicts_has_a_row_for_each_claim_and_every_word_is_counted_and_defined(tree):
    found = [row for row in rows(tree.find(".//table[@class='verdicts']")) if row]
    assert len(found) == len(CLAIMS) and {len(row) for row in found} == {6}
    for row in found:
        assert row[-1].endswith("untrained models pass too") == row[-1].startswith("reproduced")
    tally = tree.find(".//ul[@class='tally']")
    counted = {words(item).split(" ", 1)[1]: int(item.find("b").text) for item in tally}
    assert sum(counted.values()) == len(CLAIMS) and set(counted) == set(map(str, Verdict))
    (meanings,) = tree.findall(".//dl[@class='meanings']")
    assert [words(term) for term in meanings.iter("dt")] == list(map(str, MEANINGS))


def test_repeated_claims_stand_below_the_claim_that_they_repeat(tree):
    groups = [group for group in tree.iter("div") if group.get("class") == "group"]
    names = [[article.get("id") for article in group.findall("article")] for group in groups]
    found = {first: again for first, *again in names}
    assert found["faster"] == ["faster_uniform", "faster_best_rate"]
    assert found["loss_gap"] == ["loss_gap_short", "loss_gap_best_rate", "loss_gap_best_rate_bytes"]
    assert found["table_1"] == ["table_1_bytes", "table_1_paper_rate"] and found["loss_gap_keys"] == []
    assert found["random_keys_layernorm"] == found["heads_qk_norm"] == found["equal_attention_time"] == []
    assert found["placement"] == [], "its neighbours make statements of their own"
    assert sum(map(len, names)) == len(CLAIMS)
    by_class = {row.get("class"): row for row in tree.find(".//table[@class='verdicts']").iter("tr")}
    assert words(by_class["row again"].find(".//a")).startswith("… ")


def test_every_claim_comes_from_a_known_source_and_every_unit_is_defined():
    assert {source_of(claim.source)["name"] for claim in CLAIMS} == {source["name"] for source in SOURCES}
    assert {claim.unit.strip() for claim in CLAIMS} == {"", *text.TEXTS["units"]}


def small(**changed):
    experiment = {"steps": 5000, "seeds": {"layernorm": 3, "scale": None}} | changed
    return {"majority": {"left_out": {"steps": 9000, "seeds": {"scale": 0}}, "mine": experiment}}


def test_sizes_too_small_for_verdicts_are_recognised():
    assert sections.too_small(small()) == sections.too_small({"majority": {}}) == []
    (steps,) = sections.too_small(small(steps=4999))
    assert "4,999 steps" in steps and "step 5,000" in steps
    one = small(seeds={"layernorm": 2, "scale": 1})
    (runs,) = sections.too_small(one)
    assert "2 runs" in runs
    one["majority"]["short"] = {"steps": 100, "seeds": {"layernorm": 3}}
    assert sections.too_small(one) == [], "the longest training and the most runs decide"


def test_a_small_reproduction_has_a_banner_and_no_verdict(world, tmp_path):
    majority = {name: {**of, "steps": 60} for name, of in world.plan["settings"]["majority"].items()}
    page = parsed(written(world, tmp_path, settings={"majority": majority}))
    (banner,) = [part for part in page.iter("div") if part.get("class") == "banner"]
    assert "too small to mean anything" in words(banner)
    shown = [words(item) for item in page.iter() if (item.get("class") or "").startswith("badge")]
    assert set(shown) == {"no verdict", *map(str, MEANINGS)}
    assert shown.count("no verdict") == 2 * len(CLAIMS) and len(shown) == 2 * len(CLAIMS) + len(MEANINGS)
    assert all("pass too" not in words(row) for row in page.iter("tr"))
    assert not [part for part in page.iter("section") if part.get("aria-labelledby") == "findings"]
    assert not [figure for figure in page.iter("figure") if figure.get("id") in report.VERDICT_FIGURES]


def test_a_table_without_rows_is_left_out(articles):
    assert not articles["table_1"].findall(".//details[@class='table']"), "no keys of language models"
    assert articles["faster"].findall(".//details[@class='table']")


def test_texts_of_readable_tables_are_escaped():
    grid = readable.grid([("a & <b>",)], {"<i>": "{0[0]}", "n": lambda row: "1"})
    fragment = html5lib.parseFragment(
        report.readable_html(["<p>", ["x < y"], grid], "Table <3>"), namespaceHTMLElements=False
    )
    assert words(fragment) == "<p> x < y <i> n a & <b> 1"
    assert fragment.find(".//table").get("class").split()[-1] == "texts-1"


def test_the_comparisons_behind_a_claim_are_rows(world, tmp_path, monkeypatch):
    asked = ("×", 10, "at least 1.73")
    compared = [
        ("faster", 1, "a over b", "steps", 2.39, 2.04, 2.81, *asked, True, "effect"),
        ("faster", 2, "c over b", "loss", 0.895, 0.842, 0.953, *asked, False, "control"),
        ("parallel", 1, "c - b", "angle", 59.0, np.nan, np.nan, "°", 1, None, None, "context"),
    ]
    columns = "claim number comparison statistic estimate ci_low ci_high unit n_runs asked met role".split()
    read, frame = store.read, pd.DataFrame(compared, columns=columns)
    monkeypatch.setattr(
        store, "read", lambda file, name: frame if name == "comparisons" else read(file, name)
    )
    tables = [*world.plan["tables"], "comparisons"]
    page = written(world, tmp_path, {"comparisons": world.inputs["claims"]}, tables=tables)
    found = rows(parsed(page))
    assert ["a over b", "steps", "2.39× [2.04, 2.81]", "at least 1.73", "yes", "10"] in found
    assert ["c over b", "loss", "0.895× [0.842, 0.953]", "at least 1.73", "no", "10"] in found
    assert ["c − b", "angle", "59.0°", "", "", ""] in found


def test_the_view_has_the_experiments_in_three_dimensions_whatever_their_names(tree):
    """With all trained keys and queries of each run."""
    views = {view["name"]: view for view in json.loads(next(tree.iter("script")).text)["views"]}
    assert list(views) == ["three layernorm", "three scale", f"three {HOSTILE}"]
    assert "all keys lie on one plane" in views["three layernorm"]["text"]
    assert "do not lie on a plane" in views["three scale"]["text"]
    assert len({view["colour"] for view in views.values()}) == 3
    texts = [run["text"] for run in views["three layernorm"]["runs"]]
    assert [text.split(":")[0] for text in texts] == [f"LayerNorm, seed {seed}" for seed in (0, 1, 2)]
    assert len({text.split(";")[1] for text in texts}) == 3, "each run has an angle of its own"
    table = table_of_vectors().query("checkpoint == 'final'").sort_values("token", kind="stable")
    for name, view in views.items():
        here = table[table.experiment + " " + table.variant == name]
        assert len(view["runs"]) == 3
        for run, (kind, points) in product(view["runs"], (("key", "keys"), ("query", "queries"))):
            known = here.vector[(here.seed == run["seed"]) & (here.kind == kind)]
            np.testing.assert_allclose(run[points], np.stack(known.to_numpy()), atol=0.0005)
    several = table[table.vector.map(len) == 3]
    several = vectors.views(several.assign(experiment=several.seed.map({0: "a", 1: "a", 2: "b"})))
    assert [view["label"] for view in several][:4:3] == ["a, LayerNorm", "b, LayerNorm"]
    assert [len(view["runs"]) for view in several] == [2, 2, 2, 1, 1, 1]


def test_the_origin_of_files_and_the_time_taken_stand_below_their_headings(tree):
    (origin,) = [part for part in tree.iter("section") if part.get("aria-labelledby") == "provenance"]
    assert ["train", "7", "90 min", "512"] in rows(origin)
    names = ("version", "git_commit", "torch", "python", "device", "config_sha256")
    values = ("1.2", "0123456789abcdef", "2.1", "3.4", "cpu", "fedcba9876543210")
    grid = sections.provenance({"claims": dict(zip(names, values, strict=True))})
    headings = ["table", "version", "commit", "torch", "Python", "device", "settings (SHA-256)"]
    assert dict(zip(grid.columns, grid.iloc[0], strict=True)) == dict(
        zip(headings, ["claims.parquet", "1.2", "0123456789", "2.1", "3.4", "cpu", "fedcba9876"], strict=True)
    )
    named, card = "cpu (znver5 with 512-bit vectors)", "cuda (a card)"
    known = {("cpu",): ["cpu"], ("cpu", named): [named], ("cpu", f"{card}, cpu"): ["cpu", card]}
    for devices, expected in known.items():
        assert sections.devices({device: {"device": device} for device in devices}) == expected


def test_equal_files_give_equal_bytes(world, tmp_path):
    again = tmp_path / FOLDER
    again.mkdir()
    assert written(world, again) == world.page


def test_a_reproduction_with_nothing_but_claims_has_a_page(world, tmp_path):
    page = parsed(written(world, tmp_path, {"durations": None}, tables=["claims"], figures=[]))
    assert not list(page.iter("canvas")) and len(list(page.iter("script"))) == 1


def test_a_damaged_figure_is_refused(world, tmp_path):
    path = tmp_path / f"{world.plan['figures'][0]}.png"
    with files.atomic_write(path) as partial:
        partial.write_bytes(png(7, 4))
    path.write_bytes(png(7, 5))
    with pytest.raises(ValueError, match=rf"{path.name}: damaged"):
        written(world, tmp_path, {"figures": [path]}, figures=[path.stem])


def test_every_printed_command_names_its_target_before_the_options_and_plans_a_run(tree):
    """All targets at once: a dry run takes seconds."""
    commands = {code.text for code in tree.iter("code") if code.text.startswith("snakemake")}
    targets = {claim.target for claim in CLAIMS}
    assert commands == {
        f"snakemake --cores all {name}{OPTIONS}" for name in ("", *(f"{t} " for t in targets))
    }
    planned = [*shlex.split(text.command(" ".join(sorted(targets)), OPTIONS)), "--dry-run", "--quiet", "all"]
    done = subprocess.run([sys.executable, "-m", *planned], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]


def test_examples_in_the_docstrings():
    assert doctest.testmod(text).failed == 0 < doctest.testmod(text).attempted

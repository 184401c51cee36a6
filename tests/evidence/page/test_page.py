"""The page: valid, nothing is fetched, no data can become markup, and its numbers are those of the tables."""

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
from tiny_world import FOLDER, HOSTILE, OPTIONS, claims, draw, parsed, rows, words
from tiny_world import vectors as table_of_vectors

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.figures.style import looks_of
from layernorm_roles.evidence.page import findings, sections, vectors
from layernorm_roles.evidence.page import page as report
from layernorm_roles.evidence.page.sections import TEXTS, source_of
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.typography import typeset
from layernorm_roles.evidence.tables.verdicts import judged
from layernorm_roles.shown import FIGURES, TABLES

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


def words_of(text: str | None) -> str:
    return re.sub(r"\b([Wd])_(\w)\b", r"\1\2", typeset(text)).replace("\u00a0", " ")


def size_of(claim) -> tuple[float, str]:
    """The measured 3.25 over the reported 6.5, of ratios as logarithms."""
    return (0.6297, "63 % [49, 74]") if claim.unit == "×" else (0.5, "50 % [38, 62]")


def test_ids_are_unique_and_links_lead_somewhere(tree):
    """To a place on the page, to files of the reproduction beside it, or to the sources."""
    assert len(tree.findall(".//h1")) == len(tree.findall(".//main")) == 1 and tree.get("lang") == "en"
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    outside = {source["address"] for source in TEXTS["sources"] if "address" in source}
    outside.add("https://github.com/tech-srl/layer_norm_expressivity_role")
    beside = re.compile(r"(findings\.html|figures/[^/]+\.pdf|tables/[^/]+\.csv|parquet/\w+\.parquet)$")
    links = {link.get("href") for link in tree.iter("a")}
    places = {link[1:] for link in links if link.startswith("#")}
    assert {link for link in links if link[0] != "#" and not beside.match(unquote(link))} == outside
    named = {element.get(f"aria-{kind}by") for element in tree.iter() for kind in ("labelled", "described")}
    assert places | named - {None} <= {*ids}


def test_every_figure_is_on_the_page_once_and_files_lie_beside_figures_and_tables(tree, world):
    pictures = list(tree.iter("img"))
    sources = {unquote(picture.get("src")) for picture in pictures}
    assert sources == {f"figures/{name}.png" for name in world.plan["figures"]}
    assert len(pictures) == len(sources) > 2 and not tree.findall(".//details[@class='more-figures']")
    sizes = {(each.get("class"), each.find(".//img").get("width")) for each in tree.iter("figure")}
    assert sizes == {(None, "367"), ("wide", "628")}, "a screen has fewer pixels an inch than paper"
    assert {picture.get("height") for picture in pictures} == {"209"}
    for element in (*tree.iter("figure"), *tree.findall(".//details[@class='table']")):
        (files,), name = element.findall(".//span[@class='files']"), element.get("id").removeprefix("table-")
        listed, first = TABLES.get(name), f"tables/{name}.csv"
        if element.tag == "figure":
            listed, first, picture = FIGURES[name], f"figures/{name}.pdf", element.find(".//img")
            assert picture.get("src") == f"figures/{name}.png"
            assert picture.get("alt") == typeset(listed.caption) and "{" not in listed.caption
        links = {link.get("href"): link.text for link in files.iter("a")}
        inputs = {f"parquet/{each}.parquet": f"{each}.parquet" for each in listed.inputs}
        assert links == {first: first[-3:].upper()} | inputs


def test_hostile_names_stay_text(tree, world):
    assert HOSTILE not in world.page
    scripts = [script.text for script in tree.iter("script")]
    assert len(scripts) == 3, "the data of the view, and the page's own scripts"
    assert any(HOSTILE in view["name"] for view in json.loads(scripts[0])["views"])
    shown = words(tree.find("body"))
    assert f"Reproduction “{FOLDER}”" in shown
    for place in ("{} · commits 0123456789, fedcba9876 of this repository", "It is so {}"):
        assert place.format(HOSTILE) in shown.replace("’", "'"), place
    assert ["three", HOSTILE, "3", "0.001", "1", "2 of 2"] in [row[:6] for row in rows(tree)]


def test_every_claim_is_there_with_verdict_numbers_control_and_setting(articles, world, tree):
    groups = [[each.get("id") for each in group] for group in tree.findall(".//div[@class='group']")]
    repeated = {name: first for first, *others in groups for name in others}
    rules = {claim.name: words_of(claim.rule) for claim in CLAIMS}
    table = store.read(world.inputs["claims"], "claims").set_index("claim")
    assert set(articles) == {claim.name for claim in CLAIMS} and len(articles) == len(CLAIMS)
    for claim in CLAIMS:
        article = articles[claim.name]
        terms, values = (map(words, article.iter(tag)) for tag in ("dt", "dd"))
        shown, row = dict(zip(terms, values, strict=True)), table.loc[claim.name]
        assert article.find(".//a[@href]").text == row.verdict
        assert shown["Claimed in"] == words_of(claim.source)
        first, again = repeated.get(claim.name), f"… {claim.source.rpartition('; ')[2]}"
        assert article.get("class") == row.verdict.replace(" ", "-") + " again" * bool(first)
        assert words(article.find("header")[0]) == words_of(again if first else claim.statement)
        known = row.setting == table.setting.get(first)
        assert shown.get("Setting", "as above") == ("as above" if known else row.setting)
        command = f"snakemake --cores all {claim.target} {OPTIONS}"
        assert shown.get("Just this", command if first else "") == command
        assert shown.get("Claim", "") == words_of(claim.statement) * bool(first)
        places = {each.get("id") for each in article.iter()} | {a.get("href")[1:] for a in article.iter("a")}
        figures = {*claim.figures} & {*world.plan["figures"]}
        tables = {name for name in claim.shown if {*TABLES[name].inputs} <= {*world.plan["tables"]}}
        assert figures | {f"table-{name}" for name in tables} <= places
        rule = "As above." if first and rules[first] == rules[claim.name] else rules[claim.name]
        late = " This rule was fixed after the run began." * (row.rule_fixed == "after")
        assert shown["Rule"] == rule + late and ("Role" in shown) == claim.primary
        unit, reported = rf"\s?{re.escape(claim.unit.strip())} \[", words_of(claim.paper_value)
        control, statistic, role = map(words_of, (claim.control, claim.statistic, "primary"))
        if row.verdict == Verdict.NOT_TESTED:
            assert shown["Measured"] == f"nothing; it would be: {statistic}" and shown["Control"] == control
        else:
            kind = "matrices" if claim.target == "random_keys" else "runs"
            runs = "nothing is random" if row.n_seeds == 1 else f"1,300 {kind}"
            assert shown["Measured"].endswith(f"]{statistic}; {runs}")
            assert re.match(rf"3\.25{unit}2\.50, 4\.00\]", shown["Measured"])
            assert re.match(rf"1\.13?2?{unit}−0\.875, 1\.38\]", shown["Control"])
            assert shown["Control"].endswith(f"]{control}")
            reported += f"measured: {size_of(claim)[1]} of the reported effect" * bool(reported)
            role += "; p = 0.031 for no effect, with Holm’s correction over the primary claims"
        assert shown.get("Reported", "") == reported
        assert shown.get("Role", role) == role


def test_the_table_of_verdicts_has_a_row_for_each_claim_and_every_word_is_counted_and_defined(tree, world):
    table = store.read(world.inputs["claims"], "claims").set_index("claim")
    by_name, places, first = {claim.name: claim for claim in CLAIMS}, [], None
    for row in tree.findall(".//tr[@data-verdict]"):
        name = row.find(".//a").get("href")[1:]
        of, claim, (*cells,) = table.loc[name], by_name[name], map(words, row.iter("td"))
        data = [row.get(f"data-{name}") for name in ("verdict", "runs", "source")]
        assert data == [of.verdict, str(of.n_seeds), source_of(of.source)["name"]]
        again = f"… {claim.source.rpartition('; ')[2]}" * row.get("class").endswith("again")
        first = first if again else claim
        alike = bool(again and claim.paper_value and claim.paper_value == first.paper_value)
        assert (row[1].get("class") == "same") == alike, "said once"
        assert cells[0] == "".join(map(words_of, (again, claim.statement, claim.statistic)))
        assert cells[1] == (words_of(claim.paper_value) or "–") and len(cells) == 6
        if of.verdict == Verdict.NOT_TESTED:
            assert cells[2:5] == ["–"] * 3 and row.get("data-effect") == ""
        else:
            effect, size = size_of(claim)
            assert float(row.get("data-effect")) == pytest.approx(effect, abs=1e-4) and cells[4] == size
            assert "[2.50, 4.00]" in cells[2] and ("1,300" in cells[2]) == (of.n_seeds > 1)
            control, known = (of.control.partition(";")[0] for of in (claim, first))
            assert cells[3].endswith(f"[−0.875, 1.38]{words_of(control)}")
            assert (row[3][-1].get("class") == "what whole") == bool(again and control == known)
        assert cells[5].endswith("untrained models pass too") == cells[5].startswith("reproduced")
        places.append(name)
    assert places == [each.get("id") for each in tree.iter("article")]
    tally = tree.find(".//ul[@class='tally']")
    counted = {words(item).split(" ", 1)[1]: int(item.find("b").text) for item in tally}
    assert counted == table.verdict.value_counts().to_dict() and [*counted] == [*map(str, MEANINGS)]
    (meanings,) = tree.findall(".//dl[@class='meanings']")
    assert [words(term) for term in meanings.iter("dt")] == list(map(str, MEANINGS))


def test_repeated_claims_stand_below_the_claim_that_they_repeat(tree):
    groups = [[each.get("id") for each in group] for group in tree.findall(".//div[@class='group']")]
    found = {first: again for first, *again in groups}
    assert found["faster"] == ["faster_uniform", "faster_best_rate"] and sum(map(len, groups)) == len(CLAIMS)
    assert found["table_1"] == ["table_1_bytes", "table_1_paper_rate"] and found["loss_gap_keys"] == []
    assert found["placement"] == [], "its neighbours make statements of their own"
    links = [(link.get("href")[1:], link.text) for link in tree.findall(".//nav/ul/li/ul/li/a")]
    order = sorted(CLAIMS, key=lambda claim: ("projection", "scaling", "documents").index(claim.part))
    assert links == [(each.name, each.name.replace("_", " ")) for each in order if each.name in found]
    of = {
        each.get("id", "").removeprefix("table-"): part.get("id")
        for part in tree.iter("article")
        for each in (*part.iter("figure"), *part.iter("details"))
    }
    wanted = {name for claim in CLAIMS if claim.name in found for name in (*claim.figures, *claim.shown)}
    assert {of[name] for name in wanted & of.keys()} <= {*found}, "what others show is not folded"


def test_every_claim_comes_from_a_known_source_and_every_unit_is_defined():
    named = {source_of(claim.source)["name"] for claim in CLAIMS}
    assert named == {source["name"] for source in TEXTS["sources"]}
    assert {claim.unit.strip() for claim in CLAIMS} == {"", *TEXTS["units"]}


def test_sizes_too_small_for_verdicts_are_recognised():
    """The longest training and the most runs decide."""
    none = {"left_out": {"steps": 9000, "seeds": {"scale": 0}}}
    few = {"steps": 5000, "seeds": {"layernorm": 2, "scale": None}}
    short = {"steps": 4999, "seeds": {"layernorm": 3}}
    cases = (({}, ""), ({"a": few, "b": short}, ""), ({"a": few}, "2 runs"), ({"b": short}, "4,999 steps"))
    for experiments, said in cases:
        found = sections.too_small({"majority": none | experiments})
        assert len(found) == bool(said) and said in "".join(found)


def test_a_small_reproduction_has_a_banner_and_no_verdict(world, tmp_path):
    majority = {name: {**of, "steps": 60} for name, of in world.plan["settings"]["majority"].items()}
    older = {claim.name: dict.fromkeys(("measured", "ci_low", "ci_high"), "1") for claim in CLAIMS}
    kept = {name: of | {"verdict": "partial"} for name, of in older.items()}
    page = parsed(written(world, tmp_path, settings={"majority": majority}, kept=kept))
    assert "kept run:" not in words(page)
    findings = parsed((tmp_path / "findings.html").read_text(encoding="utf-8"))
    (banner,), (also,) = page.findall(".//div[@class='banner']"), findings.findall(".//p[@class='banner']")
    assert "too small to mean anything" in words(banner) and "too small" in words(also)
    assert "· commit 0123456789 ·" in words(findings)
    assert not [*findings.iter("h2"), *findings.iter("table"), *findings.findall(".//a[@class='verdict']")]
    assert "more seeds" not in words(findings) and not page.findall(".//select[@name='verdict']")
    shown = [words(item) for item in page.iter() if (item.get("class") or "").startswith("badge")]
    assert set(shown) == {"no verdict", *map(str, MEANINGS)}
    assert shown.count("no verdict") == 2 * len(CLAIMS) and len(shown) == 2 * len(CLAIMS) + len(MEANINGS)
    assert all("pass too" not in words(row) for row in page.iter("tr"))
    assert not [figure for figure in page.iter("figure") if figure.get("id") == "claims_forest"]


@pytest.mark.parametrize("most", [8, 7])
def test_tables_with_more_rows_are_folded(world, tmp_path, monkeypatch, most):
    monkeypatch.setattr(report, "FOLDED", most)
    table = parsed(written(world, tmp_path)).find(".//article[@id='faster']//details[@class='table']")
    assert len(table.findall(".//tbody/tr")) == 8 and ("open" in table.attrib) == (most == 8)


def test_texts_of_readable_tables_are_escaped():
    grid = readable.grid([("a & <b>",)], {"<i>": "{0[0]}", "n": lambda row: "1"})
    made = report.readable_html(["<p>", ["<x>"], grid], 'Table "3"')
    fragment = html5lib.parseFragment(made, namespaceHTMLElements=False)
    assert words(fragment) == "<p> <x> <i> n a & <b> 1"
    assert fragment.find("div").get("aria-label") == 'Table: Table "3"'
    assert fragment.find(".//table").get("class").split()[-1] == "texts-1"


def test_the_comparisons_behind_a_claim_are_rows(world, tmp_path):
    asked = ("×", 1300, "at least 1.73")
    compared = [
        ("faster", 2, "c over b", "loss", 0.895, 0.842, 0.953, *asked, False, "control"),
        ("faster", 1, "a over b", "steps", 2.39, 2.04, 2.81, *asked, True, "effect"),
        ("faster", 3, "d over b", "loss", 1.5, 0.5, 2.5, *asked, None, "control"),
        ("parallel", 1, "c - b", "angle", 59.0, np.nan, np.nan, "°", 1, "", None, "context"),
    ]
    columns = "claim number comparison statistic estimate ci_low ci_high unit n_runs asked met role".split()
    path = tmp_path / "comparisons.parquet"
    store.write(pd.DataFrame(compared, columns=columns), path.stem, path, {})
    tables = [*world.plan["tables"], path.stem]
    found = rows(parsed(written(world, tmp_path, {path.stem: path}, tables=tables)))
    of_faster = [
        ["a over b", "steps", "2.39× [2.04, 2.81]", "at least 1.73", "yes", "1,300"],
        ["c over b", "loss", "0.895× [0.842, 0.953]", "at least 1.73", "no", "1,300"],
        ["d over b", "loss", "1.50× [0.500, 2.50]", "at least 1.73", "open", "1,300"],
    ]
    assert [row for row in found if row[3:4] == ["at least 1.73"]] == of_faster
    assert found.count(["c − b", "angle", "59.0°", "", "", ""]) == 1


def test_the_view_has_the_experiments_in_three_dimensions_whatever_their_names(tree):
    views = {view["name"]: view for view in json.loads(next(tree.iter("script")).text)["views"]}
    assert list(views) == ["three layernorm", "three scale", f"three {HOSTILE}"]
    for name, said in (("layernorm", "all keys lie on one plane"), ("scale", "do not lie on a plane")):
        assert said in views[f"three {name}"]["text"]
    colours = {name.partition(" ")[2]: view["colour"] for name, view in views.items()}
    assert colours == {name: look["color"] for name, look in looks_of([*colours]).items()}
    texts = [re.split("[:;]", run["text"]) for run in views["three layernorm"]["runs"]]
    assert [text[0] for text in texts] == [f"LayerNorm, seed {seed}" for seed in (0, 1, 2)]
    assert len({text[2] for text in texts}) == 3, "each run has an angle of its own"
    table = table_of_vectors().query("checkpoint == 'final'").sort_values("token", kind="stable")
    for name, view in views.items():
        here = table[table.experiment + " " + table.variant == name]
        assert len(view["runs"]) == 3
        for run, (kind, points) in product(view["runs"], (("key", "keys"), ("query", "queries"))):
            known = here.vector[(here.seed == run["seed"]) & (here.kind == kind)]
            np.testing.assert_allclose(run[points], np.stack(known.to_numpy()), atol=0.0005)
    several = table[table.vector.map(len) == 3]
    assert vectors.views(several.assign(base_learning_rate=several.seed / 10)) == [], "several rates"
    several = vectors.views(several.assign(experiment=several.seed.map({0: "a", 1: "a", 2: "b"})))
    assert [view["label"] for view in several][:4:3] == ["a, LayerNorm", "b, LayerNorm"]
    assert [len(view["runs"]) for view in several] == [2, 2, 2, 1, 1, 1]


def test_the_view_says_how_flat_keys_are_and_where_queries_point_of_all_runs_or_one():
    """A random direction in three dimensions is one radian, 57 degrees, from the normal."""
    runs = pd.DataFrame({"flatness": [0.0, 0.5], "angle": [10.0, 31.0]})
    for seed, known in ((None, "2 0.25 20 10 31 57"), (4, "4 0.25 20 57")):
        said = vectors.describe("LayerNorm", runs, seed)
        assert re.findall(r"[\d.]+(?![\d.]|$)", said.rstrip(".)")) == known.split()
    one_of_ten = pd.DataFrame({"flatness": [0.005, *9 * [0.0]], "angle": 10.0})
    assert "do not lie on a plane" in vectors.describe("LayerNorm", one_of_ten)


def test_configurations_are_listed_once_with_their_tables():
    sources = {"a": {"config": "{}"}, "b": {"config": '{"n": 1}'}, "c": {}}
    found = {each["name"]: each["text"] for each in sections.configurations(sources)}
    assert found == {"a, c": "{}", "b": '{\n  "n": 1\n}'}


@pytest.mark.parametrize(
    ("decided", "figures"),
    [
        (["table_1"], ["gaussian_law"]),
        (["table_1", "loss_gap"], ["figure_4_paper_rate", "dose_response", "gaussian_law"]),
        # What two sections name stands in the first of them.
        (["attention_needs_size", "loss_gap"], ["dose_response", "figure_4_paper_rate"]),
    ],
)
def test_the_findings_have_the_figures_of_decided_sections_once(world, tmp_path, decided, figures):
    frame = claims().set_index("claim", drop=False)
    frame["verdict"] = "not tested"
    verdicts = {"table_1": "reproduced", "attention_needs_size": "holds", "loss_gap": "confounded"}
    frame.loc[decided, ["verdict", "measured"]] = [[verdicts[name], 50.0] for name in decided]
    store.write(frame, "claims", tmp_path / "claims.parquet", {})
    paths = [tmp_path / f"{name}.png" for name in ("gaussian_law", "dose_response", "figure_4_paper_rate")]
    for path in paths:
        draw(path, 7, 4)
    inputs = {"claims": tmp_path / "claims.parquet", "figures": paths}
    written(world, tmp_path, inputs, figures=[path.stem for path in paths])
    page = parsed((tmp_path / "findings.html").read_text(encoding="utf-8"))
    assert [each.get("src") for each in page.iter("img")] == [f"figures/{name}.png" for name in figures]
    parts = findings.sections(judged(frame))[0]
    for place, (part, section) in enumerate(zip(parts, page.iter("section"), strict=True), start=1):
        assert words(section.find("h2")) == f"{place}. {words_of(part['headline'])}"
        link = f"claim “{part['claim'].replace('_', ' ')}”: {verdicts[part['claim']]}"
        assert words(section.find("p")) == words_of(" ".join([*part["sentences"], link]))
        assert section.find("p/a").get("href") == f"report.html#{part['claim']}"
    for name, caption in zip(figures, page.iter("figcaption"), strict=True):
        assert words(caption) == words_of(FIGURES[name].caption).partition(". ")[0].rstrip(".") + "."


def test_the_origin_of_files_stands_below_its_heading(tree, world):
    (origin,) = tree.findall(".//section[@aria-labelledby='provenance']")
    names = [f"{table}.parquet" for table in sorted(world.plan["tables"])]
    known = [[name, "", "0123456789" if name == names[0] else "fedcba9876"] for name in names]
    assert [row[:3] for row in rows(origin) if row] == known
    keys = ("version", "git_commit", "torch", "python", "device", "config_sha256")
    source = dict(zip(keys, ("1", "0123456789ab", "2", "3", "cpu", "fedcba987654"), strict=True))
    made = sections.provenance({"claims": source})
    assert [*made] == ["table", "version", "commit", "torch", "Python", "device", "settings (SHA-256)"]
    assert [*made.loc[0]] == ["claims.parquet", "1", "0123456789", "2", "3", "cpu", "fedcba9876"]
    named, card = "cpu (znver5 with 512-bit vectors)", "cuda (a card)"
    known = {("cpu",): ["cpu"], ("cpu", named): [named], ("cpu", f"{card}, cpu"): ["cpu", card]}
    for devices, expected in known.items():
        assert sections.devices({device: {"device": device} for device in devices}) == expected


def test_equal_files_give_equal_bytes(world, tmp_path):
    again = tmp_path / FOLDER
    again.mkdir()
    assert written(world, again) == world.page


def test_a_reproduction_with_nothing_but_claims_has_a_page(world, tmp_path):
    """Also if some claims are missing, so that a figure is of none."""
    path = tmp_path / "claims.parquet"
    store.write(claims().query("claim == 'faster'"), path.stem, path, {})
    page = parsed(written(world, tmp_path, {path.stem: path}, tables=["claims"], figures=["majority_curves"]))
    assert not list(page.iter("canvas")) and "Three dimensions" not in words(page.find("body/nav"))
    assert [words(source) for source in page.find(".//dl[@class='sources']").iter("dt")] == ["the paper"]
    assert len(list(page.iter("script"))) == 1 and "commit" not in words(page.find("body/header"))
    (more,), (figure,) = page.findall(".//details[@class='more-figures']"), page.iter("figure")
    assert words(more.find("summary")) == "1 more figure, which no claim needs"
    assert more.find(".//figure[@id='majority_curves']") is figure


def test_a_damaged_figure_is_refused(world, tmp_path):
    path = tmp_path / f"{world.plan['figures'][0]}.png"
    draw(path, 7, 4)
    path.write_bytes(world.inputs["figures"][0].read_bytes())
    with pytest.raises(ValueError, match=rf"{path.name}: damaged"):
        written(world, tmp_path, {"figures": [path]}, figures=[path.stem])


def test_every_printed_command_names_its_target_before_the_options_and_plans_a_run(tree):
    commands = {code.text for code in tree.iter("code") if code.text.startswith("snakemake")}
    targets = {claim.target for claim in CLAIMS}
    assert f"snakemake --cores all {OPTIONS}" in commands and len(commands) == len(targets) + 1
    planned = shlex.split(f"{sections.command(' '.join(sorted(targets)), OPTIONS)} --dry-run --quiet all")
    done = subprocess.run([sys.executable, "-m", *planned], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]

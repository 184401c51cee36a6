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
import worlds
from markdown_it import MarkdownIt
from tiny_world import FOLDER, HOSTILE, OPTIONS, PAGES, claims, draw, parsed, rows, words
from tiny_world import vectors as table_of_vectors

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.claims.scoreboard import EXHIBITS
from layernorm_roles.evidence.figures.style import looks_of
from layernorm_roles.evidence.page import findings, sections, vectors
from layernorm_roles.evidence.page import page as report
from layernorm_roles.evidence.page.sections import TEXTS, source_of
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.typography import typeset
from layernorm_roles.evidence.tables.verdicts import judged
from layernorm_roles.provenance import provenance
from layernorm_roles.shown import FIGURES, TABLES

ROOT = Path(__file__).parents[3]


def written(world, folder, inputs=None, **changed) -> str:
    """The report of the world with a changed plan or other inputs, written to a folder with the findings."""
    pages = [folder / name for name in PAGES]
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
    files = r"figures/[^/]+\.(pdf|png)|tables/[^/]+\.(csv|md)|parquet/\w+\.parquet|settings\.json"
    beside = re.compile(rf"(findings\.html|{files}|\?(kind=\w+&verdict=[\w ]+)?#verdicts)$")
    code = {
        f"../../{path.relative_to(ROOT)}" for path in ROOT.glob("src/layernorm_roles/evidence/figures/*.py")
    }
    links = {link.get("href") for link in tree.iter("a")}
    places = {link[1:] for link in links if link.startswith("#")}
    assert {link for link in links if link[0] != "#" and not beside.match(unquote(link))} - code <= outside
    named = {element.get(f"aria-{kind}by") for element in tree.iter() for kind in ("labelled", "described")}
    assert places | named - {None} <= {*ids}


def test_every_figure_is_on_the_page_once_and_files_lie_beside_figures_and_tables(tree, world):
    pictures = list(tree.iter("img"))
    sources = {unquote(picture.get("src")) for picture in pictures}
    assert sources == {f"figures/{name}.png" for name in world.plan["figures"]}
    (more,) = tree.findall(".//details[@class='more-figures']")
    assert {figure.get("id") for figure in more.iter("figure")} == {"majority_curves_three"}, (
        "no claim names it"
    )
    assert len(pictures) == len(sources) > 2
    sizes = {(each.get("class"), each.find(".//img").get("width")) for each in tree.iter("figure")}
    assert sizes == {(None, "367"), ("wide", "628")}, "a screen has fewer pixels an inch than paper"
    assert {picture.get("height") for picture in pictures} == {"209"}
    for element in (*tree.iter("figure"), *tree.findall(".//details[@class='table']")):
        (files,), name = element.findall(".//span[@class='files']"), element.get("id").removeprefix("table-")
        listed, first = TABLES.get(name), f"tables/{name}.csv"
        if element.tag == "figure":
            listed, first, picture = FIGURES[name], f"figures/{name}.pdf", element.find(".//img")
            assert picture.get("src") == f"figures/{name}.png"
            assert (
                typeset(listed.caption).startswith(picture.get("alt").rstrip("."))
                and "{" not in listed.caption
            )
            module, _, function = listed.draw.partition(".")
            code = element.find("figcaption/a")
            assert (code.get("href").rpartition("/")[2], words(code)) == (
                f"{module}.py",
                f"drawn by {function}",
            )
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
    for place in ("{} · commit 0123456789 of this repository", "It is so {}"):
        assert place.format(HOSTILE) in shown.replace("’", "'"), place


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


def test_texts_of_readable_tables_are_escaped():
    grid = readable.grid([("a & <b>",)], {"<i>": "{0[0]}", "n": lambda row: "1"})
    made = sections.readable_html(["<p>", ["<x>"], grid], 'Table "3"')
    fragment = html5lib.parseFragment(made, namespaceHTMLElements=False)
    assert words(fragment) == "<p> <x> <i> n a & <b> 1"
    assert fragment.find("div").get("aria-label") == 'Table: Table "3"'
    assert fragment.find(".//table").get("class").split()[-1] == "texts-1"


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


def test_a_damaged_figure_is_refused(world, tmp_path):
    path = tmp_path / f"{world.plan['figures'][0]}.png"
    draw(path, 7, 4)
    path.write_bytes(world.inputs["figures"][0].read_bytes())
    with pytest.raises(ValueError, match=rf"{path.name}: damaged"):
        written(world, tmp_path, {"figures": [path]}, figures=[path.stem])


def test_every_printed_command_names_its_target_before_the_options_and_plans_a_run(tree):
    commands = {code.text for code in tree.iter("code") if code.text.startswith("snakemake")}
    targets = {claim.target for claim in CLAIMS}
    whole = {
        f"snakemake --cores all {options}" for options in (OPTIONS, OPTIONS.replace("smoke", "published"))
    }
    assert whole <= commands and len(commands) == len(targets) + 2
    planned = shlex.split(f"{sections.command(' '.join(sorted(targets)), OPTIONS)} --dry-run --quiet all")
    done = subprocess.run([sys.executable, "-m", *planned], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]


def test_every_claim_that_was_run_is_there_with_verdict_numbers_control_and_setting(articles, world):
    table = store.read(world.inputs["claims"], "claims").set_index("claim")
    ran = [claim for claim in CLAIMS if table.verdict[claim.name] != Verdict.NOT_RUN]
    order = {part["name"]: place for place, part in enumerate(TEXTS["parts"])}
    assert [*articles] == [claim.name for claim in sorted(ran, key=lambda claim: order[claim.part])]
    for claim in ran:
        article, row = articles[claim.name], table.loc[claim.name]
        terms, values = (map(words, article.iter(tag)) for tag in ("dt", "dd"))
        shown = dict(zip(terms, values, strict=True))
        assert article.find(".//a[@href]").text == row.verdict and article.get(
            "class"
        ) == row.verdict.replace(" ", "-")
        assert words(article.find("header/h3")) == words_of(claim.statement)
        assert (shown["Claimed in"], shown["Setting"]) == (words_of(claim.source), row.setting)
        assert shown["Rule"] == words_of(claim.rule) and ("Role" in shown) == claim.primary
        assert shown["This part alone"] == f"snakemake --cores all {claim.target} {OPTIONS}"
        assert f"It is so {HOSTILE}" in words(article).replace("’", "'")
        unit, kind = words_of(claim.unit), "matrices" if claim.target == "random_keys" else "runs"
        runs = "nothing is random" if row.n_seeds == 1 else f"1,300 {kind}"
        assert shown["Measured"].startswith(f"3.2{unit} [2.5, 4.0]") and shown["Measured"].endswith(runs)
        assert shown["Control"] == f"1.1{unit} [−0.9, 1.4]{words_of(claim.control)}"
        assert shown.get("Reported", "").endswith(
            f"measured: {size_of(claim)[1]} of the reported effect"
        ) == bool(claim.paper_value)
        places = {each.get("id") for each in article.iter()} | {a.get("href")[1:] for a in article.iter("a")}
        assert {*claim.figures} & {*world.plan["figures"]} <= places


def test_the_paper_claims_and_the_others_are_counted_apart(tree, world):
    table = store.read(world.inputs["claims"], "claims").set_index("claim")
    listed = {row.find(".//a").get("href")[1:]: row for row in tree.findall(".//tr[@data-verdict]")}
    for claim in CLAIMS:
        if (verdict := table.verdict[claim.name]) != Verdict.NOT_RUN:
            row, kind = listed[claim.name], "paper" if claim.kind == "paper" else "rest"
            assert (row.get("data-verdict"), row.get("data-kind")) == (verdict, kind)
            assert "3.2" in words(row[2]) and words(row[4]) == size_of(claim)[1]
            assert words(row[5]) == verdict + "untrained models pass too" * (verdict == Verdict.HOLDS)
    not_run = [name.replace("_", " ") for name in table.index if name not in listed]
    (line,) = (words(each) for each in tree.iter("p") if words(each).startswith("Not run with these"))
    assert line.startswith(f"Not run with these settings: {', '.join(not_run)}. snakemake") and not_run
    for kind, counts in zip(("paper", "rest"), tree.findall(".//p[@class='tally']"), strict=True):
        own = table.loc[[*listed]].query(f"(kind == 'paper') == {kind == 'paper'}").verdict
        links = {unquote(link.get("href")): link for link in counts.iter("a")}
        for verdict, number in own.value_counts().items():
            assert words(links.pop(f"?kind={kind}&verdict={verdict}#verdicts")) == f"{number} {verdict}"
        assert not links
    (meanings,) = tree.findall(".//dl[@class='meanings']")
    assert [words(term) for term in meanings.iter("dt")] == list(map(str, MEANINGS))


def test_comparisons_beyond_four_are_folded_and_a_variation_is_named_once(articles):
    first, rest = (rows(each) for each in articles["faster"].findall(".//table[@class='dataframe texts-4']"))
    assert [[cell.replace("’", "'") for cell in row] for row in first if row] == [
        ["a over b, steps", "0.5× [0.2, 1.0]", "at least 1.73", "yes"],
        ["c over b", "1.0× [0.5, 2.0]", "at least 1.73", "no"],
        ["d over b", "1.5× [0.8, 3.0]", "at least 1.73", "open"],
        [HOSTILE, "2.0× [1.0, 4.0]", "at least 1.73", "yes"],
    ]
    assert [row for row in rest if row] == [
        ["On other data: a over b, steps", "3.0× [1.5, 6.0]", "at least 1.73", "no"]
    ]
    folded = articles["faster"].find(".//details[@class='rest']")
    assert words(folded.find("summary")) == "1 more comparisons" and folded.get("open") is None


@pytest.mark.parametrize("long", [False, True])
def test_longer_tables_are_linked_and_not_shown(world, tmp_path, monkeypatch, long):
    places = product(("projection", "layernorm"), ("initial", "final"), ("before_norm", "after_norm"))
    keys = worlds.keys(dict.fromkeys(places, 0.3))
    store.write(
        keys, "key_selectability", path := tmp_path / "key_selectability.parquet", provenance({}, "cpu")
    )
    monkeypatch.setattr(report, "LONGEST", 0 if long else 100)
    tables = [*world.plan["tables"], "key_selectability"]
    page = parsed(written(world, tmp_path, {"key_selectability": path}, tables=tables))
    (article,) = page.findall(".//article[@id='table_1']")
    assert (article.find(".//details[@id='table-table_1']") is None) == long
    assert ("tables/table_1.md" in {link.get("href") for link in article.iter("a")}) == long


def test_a_small_reproduction_has_a_banner_and_no_verdict(world, tmp_path):
    majority = {name: {**of, "steps": 60} for name, of in world.plan["settings"]["majority"].items()}
    page = parsed(written(world, tmp_path, settings={"majority": majority}))
    found = parsed((tmp_path / "findings.html").read_text(encoding="utf-8"))
    for each in (page, found):
        (banner,) = [part for part in each.iter() if part.get("class") == "banner"]
        assert "Toy sizes that check that everything runs. The longest training" in words(banner)
    assert not [*found.iter("h2"), *found.iter("table")] and not page.findall(".//p[@class='tally']")
    shown = [words(item) for item in page.iter() if (item.get("class") or "").startswith("badge")]
    assert set(shown) == {"no verdict", *map(str, MEANINGS)}
    assert all("pass too" not in words(row) for row in page.iter("tr"))
    assert not [figure for figure in page.iter("figure") if figure.get("id") == "claims_forest"]


def test_a_reproduction_with_nothing_but_claims_has_a_page(world, tmp_path):
    """Also if some claims are missing, so that a figure is of none."""
    path = tmp_path / "claims.parquet"
    store.write(claims().query("claim == 'faster'"), path.stem, path, {})
    tables, figures = ["claims", "comparisons"], ["majority_by_width"]
    draw(tmp_path / "majority_by_width.png", 7, 4)
    inputs = {path.stem: path, "figures": [tmp_path / "majority_by_width.png"]}
    page = parsed(written(world, tmp_path, inputs, tables=tables, figures=figures))
    assert not list(page.iter("canvas")) and "Three dimensions" not in words(page.find("body/nav"))
    assert [words(source) for source in page.find(".//dl[@class='sources']").iter("dt")] == ["the paper"]
    assert len(list(page.iter("script"))) == 1 and "commit" not in words(page.find("body/header"))
    (more,) = page.findall(".//details[@class='more-figures']")
    assert words(more.find("summary")) == "1 more figure, which no claim needs"
    assert more.find(".//figure").get("id") == "majority_by_width"


def test_the_scoreboard_stands_on_every_page_with_links_to_figures_and_claims(tree, world):
    found = parsed((world.folder / "findings.html").read_text(encoding="utf-8"))
    ran = {*claims().query("verdict != 'not run here'").claim}
    for page, place in ((tree, "#"), (found, "report.html#")):
        listed = page.find(".//table[@class='verdicts']").findall(".//tr[@class='row']")
        assert len(listed) == 11
        for row, exhibit in zip(listed, EXHIBITS, strict=True):
            assert words(row[0]).startswith(exhibit.title) and exhibit.shows in words(row[0])
            links = {link.get("href") for link in row.iter("a")}
            drawn = {f"figures/{name}.png" for name in exhibit.exhibits if name in world.plan["figures"]}
            assert links >= drawn and (place + str(exhibit.claim) in links) == (exhibit.claim in ran)
    text = (world.folder / "findings.md").read_text(encoding="utf-8")
    assert sum(f"**{exhibit.title.split(', ')[0]}**" in text for exhibit in EXHIBITS) == 11
    anchors = {*re.findall(r'<a id="(\w+)">', text)}
    assert {*re.findall(r"\]\(#(\w+)\)", text)} <= anchors == ran
    assert "<script" not in text and "<img src=x" not in MarkdownIt("commonmark", {"html": True}).render(text)


def test_the_findings_have_the_figures_of_decided_sections_once(world, tmp_path):
    frame = claims().set_index("claim", drop=False)
    frame["verdict"] = str(Verdict.INCONCLUSIVE)
    frame.loc[["table_1", "attention_needs_size"], "verdict"] = "holds"
    store.write(frame, "claims", tmp_path / "claims.parquet", {})
    names = ["gaussian_law", "majority_by_width"]
    for name in names:
        draw(tmp_path / f"{name}.png", 7, 4)
    inputs = {"claims": tmp_path / "claims.parquet", "figures": [tmp_path / f"{name}.png" for name in names]}
    written(world, tmp_path, inputs, figures=names)
    page = parsed((tmp_path / "findings.html").read_text(encoding="utf-8"))
    assert [each.get("src") for each in page.iter("img")] == ["figures/gaussian_law.png"]
    parts = findings.sections(judged(frame))[0]
    for place, (part, section) in enumerate(zip(parts, page.iter("section"), strict=True), start=1):
        assert words(section.find("h2")) == f"{place}. {words_of(part['headline'])}"
        link = f"claim “{part['claim'].replace('_', ' ')}”: holds"
        assert words(section.find("p")) == words_of(" ".join([*part["sentences"], link]))
        assert section.find("p/a").get("href") == f"report.html#{part['claim']}"
    assert len(parts) == 2 and "Left open (inconclusive)." in words(page)

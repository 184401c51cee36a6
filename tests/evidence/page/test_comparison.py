"""Two reproductions side by side: hand-made ones with known differences, and the kept one beside itself."""

import json
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import worlds
from kept import KEPT, TABLES
from scipy import stats
from tiny_world import HOSTILE, parsed, rows, words
from two_reproductions import EXPECTED, HERE, SETTINGS, THERE, compare, majority_metrics, write_reproduction

from layernorm_roles import files, planning
from layernorm_roles.evidence.analysis import comparison
from layernorm_roles.evidence.analysis.comparison import Shared
from layernorm_roles.evidence.figures import comparison as figures
from layernorm_roles.evidence.figures.registry import COMPARED
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.evidence.page import page as report

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tree(results):
    text = files.read_bytes(results / "mine/compare_theirs.html").decode()
    assert HOSTILE not in text
    return parsed(text)


def test_each_claim_of_either_side_is_compared():
    table = comparison.compare(HERE, THERE).set_index("claim")
    assert {name: (row.numbers, row.verdicts) for name, row in table.iterrows()} == EXPECTED
    assert set(table.numbers) == set(comparison.MEANINGS) and set(table.verdicts) == set(comparison.VERDICTS)
    faster = table.loc["faster"]
    assert (faster.measured, faster.against_measured, faster.against_verdict) == (2, 2.5, "reproduced")
    assert table.loc["theirs"].statement == "It is so with theirs." and pd.isna(table.loc["theirs"].verdict)
    assert table.n_seeds.isna().sum() == table.against_n_seeds.isna().sum() == 1


def test_the_two_sides_change_places():
    swapped = {"only here": "only there", "only there": "only here"}
    mirrored = comparison.compare(THERE, HERE).set_index("claim")
    for name, (numbers, verdicts) in EXPECTED.items():
        found = mirrored.loc[name]
        assert (found.numbers, found.verdicts) == (numbers, swapped.get(verdicts, verdicts))


def test_a_claim_in_180_lies_apart_by_chance():
    """Intervals of two independent means with equal, known errors, as the page says."""
    apart = 2 * stats.norm.sf(2 * stats.norm.ppf(0.975) / np.sqrt(2))
    assert 1 / apart == pytest.approx(180, abs=1)
    assert "1 claim in 180" in comparison.MEANINGS["apart"]


def test_settings_that_differ_are_named():
    here = {"name": "a", "first_seed": 0, "majority": {"d8": {"steps": 1, "rates": [1, 2]}, "d3": {"x": 1}}}
    there = {"name": "b", "first_seed": 0, "majority": {"d8": {"steps": 2, "rates": [1, 2], "new": None}}}
    assert comparison.differences(here, there) == [
        ("majority.d8.steps", "1", "2"),
        ("majority.d8.new", "", "null"),
        ("majority.d3", "set, 1 key", ""),
    ]
    assert comparison.differences(here, here | {"name": "c"}) == []


def test_the_page_has_changed_verdicts_first_and_every_claim(tree):
    tables = [table for table in tree.iter("table") if "sides" in (table.get("class") or "")]
    claims = {row.get("id"): row.findall("td") for table in tables for row in table.find("tbody").iter("tr")}
    shown = {name: words(cells[-1]) for name, cells in claims.items()}
    assert {*shown} == {*EXPECTED} and [*shown][:2] == ["lost", "faster"] and [*shown][-1] == "nothing"
    assert shown["faster"] == "verdict changed overlap" and shown["theirs"] == "only there on one side"
    assert [words(cell) for cell in claims["faster"][1:3]] == [
        "2.00× [1.00, 3.00]4 runsconfounded",
        "2.50× [1.50, 3.50]4 runsreproduced",
    ]
    assert ["runs" in words(cell) for cell in claims["single"][1:3]] == [False, True]
    assert "2 of 9 verdicts differ." in words(tree)
    alike = [pair for pair in EXPECTED.values() if pair in (("identical", "same"), ("not measured", "same"))]
    assert f"{len(alike)} claims without any difference" in words(tree)


def test_links_lead_to_definitions_and_ids_are_unique(tree):
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for link in tree.iter("a"):
        address = link.get("href")
        assert address[1:] in ids if address.startswith("#") else address == "parquet/compare_theirs.parquet"
    assert not list(tree.iter("script"))


def test_the_page_says_what_differs_and_how_to_make_it(tree):
    differ = [["first_seed", "0", "7"], ["majority.d8.steps", "6000", "8000"]]
    differ += [["majority.widths", "set, 4 keys", "–"], ["commit", "mineminemi", "theirsthei"]]
    assert all(row in rows(tree) for row in differ)
    headings = [[words(cell) for cell in row.iter("th")] for row in tree.iter("tr")]
    assert all([name, "mine", "theirs"] in headings for name in ("setting", "made with"))
    commands = [code.text for code in tree.iter("code")]
    assert commands == ["snakemake --cores all compare --configfile mine.yaml --config against=theirs"]


def test_curves_of_what_both_have_are_drawn_and_the_rest_is_named(tree):
    assert [figure.get("id") for figure in tree.iter("figure")] == ["curves-d8", "curves-gpt"]
    assert all(image.get("src").startswith("data:image/png;base64,") for image in tree.iter("img"))
    assert "several widths, learning rates or lengths: widths, tiny." in words(tree)


@pytest.mark.parametrize("setting", ["base_learning_rate", "steps"])
def test_a_model_of_several_rates_or_lengths_has_no_single_curve(setting):
    one = worlds.losses(0.05)
    several = pd.concat([one, one.assign(**{setting: 2 * one[setting]})]).assign(model="several")
    drawn, others = comparison.shared(pd.concat([one, several]), pd.concat([one, several]), "model")
    assert [each.name for each in drawn] == ["gpt"] and others == ["several"]


def test_a_side_that_is_too_small_has_no_verdicts(results, tmp_path):
    small = json.loads(json.dumps(SETTINGS)) | {"name": "small"}
    small["majority"]["d8"]["steps"] = small["majority"]["widths"]["steps"] = 60
    own = majority_metrics("scale", widths=False)
    folder = write_reproduction(tmp_path / "small", THERE, own, ["gpt"], small)
    shown, table = compare(results / "mine", folder)
    assert "too small to mean anything" in shown
    assert "verdict changed" not in shown and 'class="badge' not in shown
    assert (table.verdicts == "changed").any(), "the table keeps what the two reproductions say"


def test_a_damaged_file_of_either_side_is_refused(results, tmp_path):
    for side, file in (("mine", "settings.json"), ("theirs", "parquet/claims.parquet")):
        copy = tmp_path / side
        shutil.copytree(results, copy)
        with (copy / side / file).open("ab") as damaged:
            damaged.write(b" ")
        before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        with pytest.raises(ValueError, match=rf"{Path(file).name}: damaged"):
            compare(copy / "mine", copy / "theirs")
        assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}


def test_the_kept_reproduction_against_itself_has_no_difference(tmp_path):
    claims = TABLES["claims"]
    table = comparison.compare(claims, claims)
    assert set(table.verdicts) == {"same"} and set(table.numbers) <= {"identical", "not measured"}
    copy = tmp_path / "published"
    for name in ("settings.json", *(f"parquet/{table}.parquet" for table in COMPARED)):
        with files.atomic_write(copy / name) as partial:
            partial.write_bytes(files.read_bytes(KEPT / name))
    shown, _ = compare(copy, KEPT)
    assert "0 of " in shown and "Nothing: all settings are equal" in shown


def test_the_reproduction_to_compare_with_must_be_a_finished_other_one(results, monkeypatch):
    monkeypatch.chdir(results.parent)
    assert planning.other("theirs", "mine").folder == "results/theirs"
    recorded = planning.checksums("results/theirs")
    for name in ("settings.json", "parquet/claims.parquet"):
        assert recorded[name] == files.sha256_of(f"results/theirs/{name}")
    assert planning.other(str(results / "theirs"), "mine").folder == str(results / "theirs"), "or by a path"
    for name in ("mine", "results/mine", "nowhere", "../results/nowhere", "", ["theirs"], 7):
        with pytest.raises(
            ValueError, match=r"against = .*: expected another finished .* in results/: theirs$"
        ):
            planning.other(name, "mine")
    (results / "unfinished").mkdir()
    files.write_text(results / "unfinished/settings.json", "{}")
    with pytest.raises(ValueError, match=r"'unfinished'.* lacks parquet/claims\.parquet"):
        planning.other("unfinished", "mine")


def test_only_what_both_have_is_compared(results, monkeypatch):
    monkeypatch.chdir(results.parent)
    whole, _ = compare(results / "mine", results / "theirs")
    (results / "theirs/parquet/language_model_metrics.parquet").unlink()
    left = [name for name in COMPARED if name != "language_model_metrics"]
    assert planning.compared_tables("results/theirs") == left
    part, _ = compare(results / "mine", results / "theirs")
    assert 0 < part.count("<img") < whole.count("<img")


def snakemake(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "snakemake", "--cores", "all", *arguments, "--dry-run", "--quiet", "all"]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True)


def test_the_printed_command_plans_a_run_and_a_wrong_one_is_refused():
    options = planning.command_options("smoke", ROOT / "workflow/presets")
    done = snakemake(*report.command("compare", f"{options} --config against=published").split()[3:])
    assert done.returncode == 0, done.stderr[-2000:]
    nowhere = "against = 'nowhere': expected another finished reproduction"
    for arguments, message in (
        (["compare", "--config", "against=nowhere"], nowhere),
        (["compare"], "compare: with what?"),
        (["--config", "against=default"], "against = 'default'"),
    ):
        done = snakemake(*arguments)
        assert done.returncode == 1 and message in done.stderr, done.stderr[-2000:]
        assert "Traceback" not in done.stderr


def test_curves_are_means_over_seeds_thin_for_here_and_wide_for_there():
    """Three seeds, the last of which is far from the others, so that a mean is no median."""

    def side(**levels):
        rows = [
            (variant, seed, step, level + seed**2 + step / 10, 10 * level + step)
            for variant, level in levels.items()
            for seed, step in product((0, 1, 5), (0, 40))
        ]
        return pd.DataFrame(rows, columns=["variant", "seed", "step", "test_loss", "query_angle_mean"])

    shared = Shared("d8", side(layernorm=1.0, scale=2.0), side(layernorm=3.0, none=4.0))
    figure = figures.overlay(shared, ("test_loss", "query_angle_mean"), ("ours", "theirs"))
    loss, angle = figure.axes
    drawn = sorted((line.get_linewidth(), *map(float, line.get_ydata())) for line in loss.lines)
    means = [(thick, level + 26 / 3) for thick, level in ((1.1, 1), (1.1, 2), (4, 3), (4, 4))]
    np.testing.assert_allclose(drawn, [(thick, mean, mean + 4) for thick, mean in means])
    assert sorted(float(line.get_ydata()[0]) for line in angle.lines) == [10, 20, 30, 40]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    plt.close(figure)
    assert names[:2] == ["ours", "theirs"]
    assert {name.partition(", ")[2] for name in names[2:]} == {"", "only ours", "only theirs"}
    assert {f"{LEGENDS['scale']}, only ours", f"{LEGENDS['none']}, only theirs"} <= {*names}

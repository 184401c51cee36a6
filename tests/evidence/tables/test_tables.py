"""Readable tables of the kept reproduction, with their numbers computed again, and what readers see of them.

`recomputed_tables` has the numbers. Those of a random reproduction are compared in `analysis/test_random_numbers.py`.
"""

import json
import re
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from kept import KEPT, TABLES
from random_world import TABLES as RANDOM
from recomputed_tables import RECOMPUTED, agree, estimate, keys_at, sentences, shares

from layernorm_roles import shown, store
from layernorm_roles.evidence import legends
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.draw import draw_groups
from layernorm_roles.evidence.legends import label, legend_order
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.compare import compare
from layernorm_roles.schemas import CEILING_QUANTILES, SCHEMAS


def made(name: str, tables=RANDOM):
    return readable.make(shown.TABLES[name], tables)


of_random = cache(made)
"""A readable table of the random reproduction, which many tests read and none changes."""


def grids(table) -> list[pd.DataFrame]:
    return [part for part in table.parts if isinstance(part, pd.DataFrame)]


@pytest.mark.parametrize("name", sorted(shown.TABLES))
def test_the_code_makes_of_the_kept_tables_what_is_recomputed_and_what_readers_have(name, monkeypatch):
    """If the text alone is another one, it is of older code: snakemake --cores all published_figures"""
    monkeypatch.setattr(legends, "_SCALED", {})
    legends.name_scaled(json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))["norms"])
    table = made(name, TABLES)
    if table.frame.empty:
        pytest.skip("The kept reproduction has no rows of it.")
    assert readable.markdown(table.parts) == (KEPT / f"tables/{name}.md").read_text(encoding="utf-8")
    of_pairs = {"ceilings", "ceilings_by_token"}  # of which it has the counts alone
    if name in {*RECOMPUTED} - of_pairs:
        agree(table.frame, RECOMPUTED[name](TABLES))


@pytest.mark.parametrize("contexts", [12, 5, 0])
def test_sentences_are_marked_where_their_tokens_are_unselectable(contexts):
    """Of twelve sentences with unselectable tokens eight are shown, of five all."""
    tokens = RANDOM["sentence_tokens"]
    tokens = tokens.assign(verdict=tokens.verdict.where(tokens.context < contexts, "selectable"))
    tables = {"sentence_tokens": tokens, "key_selectability": RANDOM["key_selectability"]}
    parts = made("table_3", tables).parts
    assert any("no sentence has" in part for part in parts if isinstance(part, str)) == (not contexts)
    (listed,) = [part for part in parts if isinstance(part, list)] or [[]]
    for sentence, tokens in zip(listed, sentences(tables), strict=True):
        whole = [(c, marked) for text, marked in tokens for c in text if not c.isspace() and c != "\ufffd"]
        pieces = enumerate(re.split("[⟦⟧]", sentence))
        shown = [(c, number % 2 == 1) for number, piece in pieces for c in piece]
        assert [(c, marked) for c, marked in shown if not c.isspace() and c != "□"] == whole


@pytest.mark.parametrize(
    "table",
    [t for t in shown.TABLES.values() if {*t.inputs} - {"majority_metrics", "claims"}],
    ids=lambda table: table.name,
)
def test_a_reproduction_without_the_rows_says_so(table):
    empty = {name: SCHEMAS[name].empty_table().to_pandas() for name in table.inputs}
    made_of_nothing = readable.make(table, empty)
    assert made_of_nothing.frame.empty and not any(len(grid) for grid in grids(made_of_nothing))
    assert readable.markdown(made_of_nothing.parts)
    assert made_of_nothing.parts == [table.none] or not table.none


# What readers see

SEEN = """
convergence | @single | d | d_model
convergence | @single | learning rate | base_learning_rate
convergence | @single | test loss | test_loss
convergence | @single | reached it | reached, runs
convergence | @single | median steps | median_steps
convergence | @single | ratio to LayerNorm | ratio_to_layernorm, ratio_low.replace(0, -@inf), ratio_high
convergence | @single | pairs | pairs
rates | runs > 0 | best for | chosen.where(chosen > 0), runs
rates | runs > 0 | test accuracy (%) | 100 * test_accuracy, 100 * accuracy_low@of_three, 100 * accuracy_high@of_three
rates | runs > 0 | test loss | test_loss
rates | runs > 0 | steps to test loss 0.5 | steps, steps_low, steps_high
widths | pairs >= 0 | test accuracy (%) | 100 * test_accuracy
widths | pairs >= 0 | cost (points) | cost.where(variant != 'scale'), cost_low, cost_high
widths | pairs >= 0 | pairs | pairs
size_and_projection | effect == 'size' | learning rate | base_learning_rate
size_and_projection | effect == 'size' | of | step.fillna(0.5)
size_and_projection | effect == 'size' | size | mean, low, high
size_and_projection | effect == 'projection' | projection | mean, low, high
size_and_projection | effect == 'interaction' | interaction | mean, low, high
size_and_projection | effect == 'interaction' | seeds | pairs
baselines | seeds >= 0 | seeds | seeds
baselines | seeds >= 0 | validation loss | valid_loss, valid_loss_low, valid_loss_high
baselines | seeds >= 0 | unigram | unigram_loss
baselines | seeds >= 0 | no attention | no_attention_loss
baselines | seeds >= 0 | below unigram by | @gain, @gain_low, @gain_high
baselines | seeds >= 0 | attention is worth | @worth, @worth_low, @worth_high
losses_by_rate | runs > 0 | steps | steps
losses_by_rate | runs > 0 | learning rate | base_learning_rate
losses_by_rate | runs > 0 | runs | runs
losses_by_rate | runs > 0 | diverged | diverged
losses_by_rate | runs > 0 | learnt to attend | learnt
losses_by_rate | runs > 0 | training loss | train_loss
losses_by_rate | runs > 0 | validation loss | valid_loss, valid_loss_low, valid_loss_high
table_3 | occurrences >= 10 * 2 * 2 | occurrences × layers × seeds | occurrences
table_3 | occurrences >= 10 * 2 * 2 | unselectable, untrained (%) | initial_percent
table_3 | occurrences >= 10 * 2 * 2 | unselectable, trained (%) | final_percent
ceilings_by_token | contexts >= 3 | occurrences | occurrences
ceilings_by_token | contexts >= 3 | contexts | contexts
ceilings_by_token | contexts >= 3 | less than ½ (%) | percent, low.clip(0), high.clip(0, 100)
ceilings_by_token | contexts >= 3 | median ceiling | ceiling
ceilings_by_token | contexts >= 3 | most received | received
gaussian_law | share == 0.1 and not causal and d != 5 | d | d
gaussian_law | share == 0.1 and not causal and d != 5 | 10 % | n
gaussian_law | share == 0.5 and causal and d != 5 | 50 %, causal | n
"""
"""Table, rows of its CSV file, heading, and the numbers below it: a mean and perhaps its interval, or counts."""
SHORT = {
    "@single": "experiment not in ('rates', 'widths')",
    "@of_three": ".where(runs > 2)",
    "@gain": "gain_over_unigram",
    "@worth": "worth_of_attention",
}
BETWEEN = {"table_3": slice(20, None), "ceilings_by_token": slice(10, -10)}
"""Rows that readers do not see, of tables that show the first alone, or the first and the last."""
WORDS = {"experiment": ("experiment", str), "model": ("model", str), "norm": ("variant", label)}
WORDS["token"] = ("token", readable.token_text)
"""By heading, the column of the CSV file whose words stand below it, and how they are written."""


def reads(cell: str, *values: float, alike: bool = False) -> None:
    """A cell shows the numbers, to its last digit: a bound in place of a half-open interval, and no unknown number.

    Where a number and its interval are `alike`, it may have the number alone.
    """
    signs = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", ",")
    plain = cell.replace("\u00a0×\u00a010", "e").translate(signs)
    texts, open_ = re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", plain), [*np.isinf(values[1:])]
    unknown = not np.isfinite(values[0]) or (len(open_) == 2 and all(open_))
    known = [] if unknown else [value for value in values if np.isfinite(value)]
    if any(open_) and not unknown:
        known = known[:1]
        assert cell[0] == ("≥" if open_[-1] else "≤")
    if alike and len(known) == 3:
        assert len({*texts}) > 1 or len(texts) == 1
        texts = texts * 3 if len(texts) == 1 else texts
    assert len(texts) == len(known), cell
    for text, value in zip(texts, known, strict=True):
        digits, _, power = text.partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        assert float(text) == pytest.approx(value, abs=0.51 * unit), cell


@pytest.mark.parametrize("line", SEEN.strip().splitlines())
def test_cells_show_the_numbers_of_their_rows(line):
    for short, words in SHORT.items():
        line = line.replace(short, words)
    (name, where, heading, values), inf = line.split(" | "), np.inf  # noqa: F841, for the values
    frame = of_random(name).frame.query(where)
    rows = frame.drop(frame.index[BETWEEN.get(name, slice(0))])
    seen = pd.concat([grid for grid in grids(of_random(name)) if heading in grid])
    numbers = [rows.eval(value, engine="python") for value in re.split(r", (?![^(]*\))", values)]
    for words in {*WORDS} & {*seen}:
        column, shown_as = WORDS[words]
        assert [*seen[words]] == [*rows[column].map(shown_as)]
    for cell, *of_row in zip(seen[heading], *numbers, strict=True):
        reads(cell, *of_row, alike=name == "ceilings_by_token")


@pytest.mark.parametrize(
    "columns",
    [
        "rates experiment d_model variant base_learning_rate",
        "widths experiment d_model variant",
        "losses_by_rate model steps variant base_learning_rate",
    ],
)
def test_rows_are_ordered_by_setting_and_variants_as_in_legends(columns):
    """Legends have no norm after scaling, and the small LayerNorm after both; by the alphabet they come before."""
    name, *columns = columns.split()
    metrics = RANDOM["majority_metrics"].query("experiment in ('rates', 'widths')")
    renamed = {"variant": {"scale_released": "layernorm_small", "projected_qk": "none"}}
    tables = {"language_model_metrics": RANDOM["language_model_metrics"]}
    rows = made(name, tables | {"majority_metrics": metrics.replace(renamed)}).frame
    rows = rows.assign(variant=rows.variant.map(legend_order(rows.variant).index))[columns]
    assert rows.to_numpy().tolist() == sorted(rows.to_numpy().tolist())


LAYERED = """
table_1 | 0 | model == 'gpt' and site == 'after_norm' | variant
table_1 | 1 | model == 'gpt' and site == 'after_norm_exact' | variant
table_1 | 2 | model == 'wide' and site == 'after_norm' | variant
table_2 | 0 | model == 'gpt' | site
table_2 | 1 | model == 'wide' | site
table_3 | -1 | percent >= 0 | model
table_4 | 0 | model == 'bert' | variant
heads | 0 | model == 'gpt' and site == 'head' and not causal | variant
heads | 1 | model == 'gpt' and site == 'head_exact' and not causal | variant
heads | 2 | model == 'gpt' and site == 'head' and causal | variant
heads | 4 | model == 'wide' and site == 'head' and not causal | variant
"""
"""Table, number of its grid, rows of its CSV file, and the column by which the grid's rows differ."""
SENTENCES = dict(texts="sentences", variant="projection", causal=False)


@pytest.mark.parametrize("line", LAYERED.strip().splitlines())
def test_shares_of_keys_have_a_column_for_each_layer_and_those_of_the_paper_beside_its_model(line):
    name, number, where, column = line.split(" | ")
    of_sentences = {"table_3": lambda tables: shares(keys_at(tables, "after_norm", **SENTENCES))}
    rows = (RECOMPUTED | of_sentences)[name](RANDOM).reset_index().query(where)
    parts, sites = of_random(name).parts, {"before_norm": "before LayerNorm"}
    title, grid = [pair for pair in pairwise(parts) if isinstance(pair[1], pd.DataFrame)][int(number)]
    assert rows.model.iloc[0] in title.lower() or column == "model"
    assert ("the keys before them" in title) == (" and causal" in where)
    tokens = {"table_3": "Sentences of 950 to 960", "table_4": "Sentences of 957 to 967"}
    tokens = tokens.get(name, "Contexts of 900 to 910") + " tokens"
    assert tokens in (parts[0] if name == "table_3" else title) or "after_norm_exact" in where
    assert ("eps = 0" in title) == ("exact" in where)
    assert (f"d_head = {2 if 'gpt' in where else 16})" in title) == (name == "heads")
    names = {"variant": label, "site": lambda site: sites.get(site, "after LayerNorm"), "model": str}[column]
    cells = grid.set_index([grid.columns[0], "weights"])
    for (value, checkpoint), part in rows.groupby([column, "checkpoint"]):
        seen = cells.loc[names(value), {"initial": "untrained", "final": "trained"}[checkpoint]]
        assert seen.seeds == str(part.seeds.iloc[0])
        reads(seen.undecided, part.borderline_percent.mean())
        for row in part.itertuples():
            reads(seen[f"layer {row.layer}"], row.percent, max(row.low, 0), min(row.high, 100))
    paper = reported()["language_model"].get(name, {}) if "gpt" in where and number == "0" else {}
    assert len(cells) == rows.groupby([column, "checkpoint"]).ngroups + len(paper)
    for value, percent in paper.items():
        for layer, share in enumerate(percent, start=1):
            reads(cells.loc[(names(value), "paper, trained"), f"layer {layer}"], share)
    if column == "variant":
        assert [*dict.fromkeys(grid[grid.columns[0]])] == [label(name) for name in legend_order(rows.variant)]


def test_no_unselectable_key_is_a_zero_without_an_interval_and_no_key_at_all_a_dash():
    keys = RANDOM["key_selectability"].query("checkpoint == 'final'").assign(n_unselectable=0)
    (grid, *_) = grids(made("table_1", {"key_selectability": keys}))
    cells = grid.set_index("weights")[["layer 1", "layer 2"]]
    shown = [{*cells.loc[weights].to_numpy().ravel()} for weights in ("trained", "untrained")]
    assert shown == [{"0"}, {"–"}]


QUERIES = {"any": "any query", "norm": "any query behind the norm", "own": "the text's own queries"}
KEYS = {"as used": "as used", "without norm": "without the norm"}


def test_ceilings_are_shown_by_share_or_quantile_set_of_queries_and_layer():
    """The quantiles are of queries behind the norm in place of any, where the norm is known."""
    columns = [["less than", "queries", "keys"], ["pairs", "queries", "keys"]]
    pairs = zip(grids(of_random("ceilings")), columns, strict=False)
    below, tails = (grid.set_index(by) for grid, by in pairs)
    shares = RECOMPUTED["ceilings"](RANDOM).query("model == 'minilm'").reset_index()
    fractions = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
    for row in shares.itertuples():
        place = (fractions[row.threshold], QUERIES[row.queries], KEYS[row.normalised])
        cell = below.loc[place, f"layer {row.layer}"]
        reads(cell, row.percent, max(row.low, 0), min(row.high, 100), alike=True)
    table = RANDOM["attention_ceilings"].query("model == 'minilm' and queries != 'any' and layer > 0")
    for (queries, normalised, layer), part in table.groupby(["queries", "normalised", "layer"]):
        for quantile in (0.01, 0.5, 0.99):
            place = (f"{100 * quantile:g} %", QUERIES[queries], KEYS[normalised])
            mean, low, high = estimate(part.quantiles.str[CEILING_QUANTILES.index(quantile)])
            reads(tails.loc[place, f"layer {layer:g}"], mean, max(low, 0), min(high, 1), alike=True)
    assert below.size == len(shares) and tails.size == 3 * 2 * 3
    assert len(grids(of_random("ceilings"))[3]) == 3 * 3, "of any query, where no norm is known"
    titles = [part for part in of_random("ceilings").parts[::4] if " contexts of " in part]
    for title, (context, d) in zip(titles, ((4, 32), (1, 64)), strict=True):
        assert f": {context} contexts of 30 keys, heads of {d} dimensions" in title


def test_the_law_of_widths_has_all_rivals_before_earlier_ones_and_says_where_it_ends():
    (grid, note, *_), shares = of_random("gaussian_law").parts, ["1 %", "10 %", "50 %"]
    assert [*grid] == ["d", *shares, *(f"{share}, causal" for share in shares)]
    assert f"more than {RANDOM['gaussian_law'].n.max():,.0f} keys" in note


@pytest.mark.parametrize("contexts", [3, 2])
def test_tokens_of_three_contexts_are_listed_or_of_all_where_there_are_fewer(contexts):
    table = RANDOM["token_ceilings"].query("context < @contexts")
    listed = made("ceilings_by_token", {"token_ceilings": table})
    assert sum(map(len, grids(listed))) == 20
    assert f"minilm, layer {listed.frame.layer[0]}, " in listed.parts[0]


def test_a_single_document_has_no_interval():
    keys = RANDOM["pretrained_keys"]
    one = {"pretrained_keys": keys[keys.context == keys.context.min()]}
    for frame, has in ((RANDOM, True), (one, False)):
        (grid, *_) = grids(made("cut_heads", frame))
        assert any("[" in cell for cell in grid.to_numpy().ravel()) == has


def test_cut_heads_have_a_row_for_each_number_of_dimensions():
    rows = RECOMPUTED["cut_heads"](RANDOM).reset_index()
    (grid,) = grids(of_random("cut_heads"))
    for (d, part), (_, seen) in zip(rows.groupby("dimensions"), grid.iterrows(), strict=True):
        assert seen.dimensions == str(d)
        reads(seen["undecided"], part.undecided_percent.mean())
        reads(seen["Gaussian keys"], part.gaussian_percent.mean())
        for row in part.itertuples():
            reads(seen[f"layer {row.layer}"], row.percent, max(row.low, 0), min(row.high, 100), alike=True)


OPEN = "reproduced; untrained models pass too; p = 0.051 with Holm's correction"
CLAIMS = {
    "faster": ["partial", "3.00× [1.73, ∞]", "3 times", "1.00× [0.111, 9.00] (scale)", "8", "50 % [25, ∞]"],
    "accurate": ["not tested", "4.00 points [−8.00, 12.0]", "–", "scale", "–", "−50 % [100, −150]"],
    "table_1": [OPEN, "100 % [90.0, 110]", "–", "10.0 % [8.00, 12.0] (scale)", "1,300", "500 % [450, 550]"],
    "geometry": ["holds", "1.00 [−0.0100, 2.00]", "–", "scale", "7", "33 % [0, 67]"],
    "loss_gap": ["not run here", "–", "–", "scale", "–", "–"],
}


def test_claims_are_shown_with_units_controls_and_the_effect_over_the_reported_one():
    """The effect of a ratio is its logarithm: log 3 / log 9. Holm's correction opens the verdict on an effect alone."""
    table = RANDOM["claims"].assign(statement="It's W_O - 1", statistic="steps", control="scale; another")
    table["paper_value"] = table.claim.map({"faster": "3 times"})
    table["n_seeds"], table["p_holm"] = [8, 1, 1300, 1, 7, 0], [0.5, 0.5, 0.051, 1, 0.049, 0.5]
    (shown,) = grids(made("claims", {"claims": table}))
    rows = [[cell.replace("\u00a0", " ") for cell in row] for row in shown.to_numpy().tolist()]
    assert {row[0]: row[3:] for row in rows} == CLAIMS
    assert {tuple(row[1:3]) for row in rows} == {("It’s W_O − 1", "steps")}


def test_files_hold_the_numbers_in_full_precision_and_the_table_to_read(tmp_path, monkeypatch):
    """Norms of the settings are called by what they compute."""
    monkeypatch.setattr(legends, "_SCALED", {})
    path, names = tmp_path / "language_model_metrics.parquet", ("baselines", "losses_by_rate")
    tables = {path.stem: RANDOM[path.stem].replace({"variant": {"layernorm_shrunk": "mine"}})}
    store.write(tables[path.stem], path.stem, path, {})
    outs = [tmp_path / file for name in names for file in shown.TABLES[name].files]
    norms = {"mine": {"like": "projection", "factor": 35.0, "part": "both"}}
    draw_groups({"settings": {"norms": norms}, "groups": ["language_model"]}, [path], outs)
    for name in names:
        again = made(name, tables)
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / f"tables/{name}.csv"), again.frame)
        text = (tmp_path / f"tables/{name}.md").read_text(encoding="utf-8")
        assert text == readable.markdown(again.parts) and "mine" not in text
        assert ("35 × projection only" in text) == (name == "baselines")


@pytest.mark.parametrize("lengths", [[10, 4], [9]])
def test_no_token_is_listed_among_those_that_get_least_and_those_that_get_most(lengths):
    often = of_random("ceilings_by_token").frame.query("contexts >= 3").token.unique()[: sum(lengths)]
    ceilings = RANDOM["token_ceilings"]
    table = made("ceilings_by_token", {"token_ceilings": ceilings[ceilings.token.isin(often)]})
    listed = grids(table)
    assert [*map(len, listed)] == lengths and pd.concat(listed).token.is_unique


def test_two_reproductions_are_compared_claim_by_claim(tmp_path):
    """A claim differs by its verdict, by intervals that have no number in common, or because one of them lacks it."""
    texts = dict.fromkeys("statement source setting statistic control reason role rule_fixed".split(), "")
    mine = RANDOM["claims"].assign(**texts, n_seeds=8)
    kept = mine[mine.claim != "geometry"].set_index("claim", drop=False)
    kept.loc["faster", ["measured", "ci_low", "ci_high", "verdict"]] = [1.5, 1.25, 1.625, "holds"]
    kept.loc["accurate", ["measured", "ci_low", "ci_high"]] = [14, 13, 15]
    kept.loc["table_1", ["measured", "ci_low", "ci_high"]] = [115, 110, 120]
    for folder, frame in (("mine", mine[mine.claim != "loss_gap"]), ("kept", kept)):
        store.write(frame, "claims", tmp_path / folder / "parquet/claims.parquet", {})
    outs = tmp_path / "c.csv", tmp_path / "c.md"
    assert compare(tmp_path / "mine", tmp_path / "kept", *outs) == [
        "faster: another verdict, intervals apart; mine: 3.00× [1.73, ∞], partial; kept: 1.50× [1.25, 1.62], holds",
        "accurate: intervals apart; mine: 4.00 points [−8.00, 12.0], not tested; "
        "kept: 14.0 points [13.0, 15.0], not tested",
        "geometry: in one of them only; mine: 1.00 [−0.0100, 2.00], holds; kept: –",
        "loss_gap: in one of them only; mine: –; kept: not tested",
    ]
    written = pd.read_csv(outs[0]).set_index("claim").measured_other
    assert (written["faster"], written["table_1"]) == (1.5, 115) and np.isnan(written["geometry"])
    row = "| table_1 | 100 % [90.0, 110], reproduced | 115 % [110, 120], reproduced |"
    assert row in " ".join(outs[1].read_text(encoding="utf-8").split())
    store.write(kept, "claims", tmp_path / "kept/mine/parquet/claims.parquet", {})
    folders = tmp_path / "mine", tmp_path / "kept/mine"
    assert len(compare(*folders, *outs)) == 4 and all(f" {each} " in outs[1].read_text() for each in folders)
    with pytest.raises(ValueError, match="never has no verdicts; run snakemake"):
        compare(tmp_path / "never", tmp_path / "kept", *outs)

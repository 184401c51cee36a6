"""Whether a claim's rule is the one of the run's start."""

import json
from dataclasses import replace

import pytest
import worlds
from judging import CLAIMS, PROVENANCE

from layernorm_roles import store
from layernorm_roles.evidence import claims
from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.claims import fixed, rules

SETTINGS = {
    "first_seed": 7,
    "majority": {"d8": {"steps": 10}, "d3": {"steps": 20}},
    "language_model": {"gpt": {"steps": 5}, "gpt_bytes": {"steps": 6}},
    "statements": {"fusion": {"seeds": 2}},
}


def hashes(settings=SETTINGS):
    return fixed.rule_hashes(claims.CLAIMS, settings)


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def test_a_threshold_changes_the_rules_that_reach_it(monkeypatch):
    before = hashes()
    assert len(set(before.values())) == len(before)
    monkeypatch.setattr(rules, "FLAT", 2e-3)
    assert changed(before, hashes()) == {"plane", "plane_affine"}
    monkeypatch.undo()
    monkeypatch.setattr(rules, "TEST_LOSS", 0.4)
    of_runs = {name for name, claim in CLAIMS.items() if "majority_metrics" in claim.tables}
    assert {"faster", "size_or_projection"} <= changed(before, hashes()) <= of_runs


def test_the_words_and_the_role_of_a_claim_belong_to_its_rule_and_where_it_is_from_does_not():
    """The word stands for any other text; as the part it gives the claim another role."""
    words = {"statement", "setting", "statistic", "unit", "control", "rule", "part"}

    def hash_with(**changes):
        return fixed.rule_hashes([replace(CLAIMS["accurate"], **changes)], SETTINGS)["accurate"]

    others = {"source", "paper_value", "target"}
    assert {name for name in words | others if hash_with(**{name: "documents"}) != hash_with()} == words


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [("Mean and interval of", "What one gets for", False), ("clip(lower=1)", "clip(lower=2)", True)],
)
def test_code_that_is_reached_counts_and_its_docstrings_do_not(monkeypatch, old, new, counts):
    before, source, function = hashes(), fixed.inspect.getsource, majority.log_ratio_of_steps
    assert old in source(function)
    edited = source(function).replace(old, new)
    monkeypatch.setattr(
        fixed.inspect, "getsource", lambda thing: edited if thing is function else source(thing)
    )
    fixed._bare.cache_clear()
    found = changed(before, hashes())
    monkeypatch.undo()
    fixed._bare.cache_clear()
    assert ("faster" in found) == counts and "table_1" not in found and "plane" not in found


def test_only_the_settings_that_a_claim_depends_on_count():
    before = hashes()

    def with_settings(**sections):
        return changed(before, hashes(SETTINGS | sections))

    deeper = with_settings(majority={"d8": {"steps": 10}, "d3": {"steps": 21}})
    assert "plane" in deeper and "faster" not in deeper
    assert with_settings(first_seed=8) == set(before)
    assert with_settings(statements={"fusion": {"seeds": 3}}) == {"fusion_residual", "fusion_norm"}
    wider = with_settings(language_model={"gpt": {"steps": 5}, "gpt_bytes": {"steps": 7}})
    assert "loss_gap_bytes" in wider and "loss_gap" not in wider
    assert with_settings(device="cuda") == set()


MADE_FROM = {
    "random_keys": {"random_keys", "gaussian_law"},
    "pretrained": {"pretrained_keys", "attention_ceilings", "ones_share", "projection_shift"},
    "placement": {
        "placement",
        "placement_gradients",
        "placement_scales",
        "untrained_gradients",
        "position_probe",
    },
    **{name: {name} for name in ("geometry", "fusion", "batch_dependence", "score_scale")},
}


@pytest.mark.parametrize(("section", "tables"), MADE_FROM.items())
def test_the_settings_behind_a_table_count_for_every_claim_that_reads_it(section, tables):
    statements = {name: {"seeds": 2} for name in MADE_FROM if name not in ("random_keys", "pretrained")}
    before = SETTINGS | {"random_keys": {"seeds": 2}, "pretrained": {"seeds": 2}, "statements": statements}
    edited = {section: {"seeds": 3}}
    after = before | ({"statements": statements | edited} if section in statements else edited)
    assert (
        changed(hashes(before), hashes(after))
        == {n for n, c in CLAIMS.items() if tables & {*c.tables}}
        != set()
    )


@pytest.mark.parametrize("results", fixed.RESULTS)
def test_no_record_is_made_beside_results(tmp_path, results):
    (tmp_path / results).mkdir()
    claims.record(tmp_path / "rules.json", SETTINGS)
    assert not (tmp_path / "rules.json").exists()


def test_a_record_stands_from_the_first_result_on_and_judging_compares(tmp_path, monkeypatch):
    record = tmp_path / "rules.json"
    claims.record(record, {"first_seed": 3})
    claims.record(record, SETTINGS)
    first = record.read_bytes()
    assert json.loads(first) == hashes(), "without results the last rules count"
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(rules, "FLAT", 2e-3)
    claims.record(record, SETTINGS)
    assert record.read_bytes() == first
    path = tmp_path / "random_keys.parquet"
    store.write(worlds.random_keys({"none": (1.0, 0.0)}), "random_keys", path, PROVENANCE)
    for recorded, others in ((record, "before"), (None, "after"), (tmp_path / "none.json", "after")):
        claims.judge_files([path], tmp_path / "claims.parquet", recorded, SETTINGS)
        found = store.read(tmp_path / "claims.parquet", "claims").set_index("claim").rule_fixed
        assert found["plane"] == "after" and found["faster"] == others
    record.write_text("[]")
    with pytest.raises(ValueError, match=r"rules\.json"):
        fixed.recorded(record)

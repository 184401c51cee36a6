"""Whether a claim's rule is the one of the run's start: words, numbers, settings and seeds count, code does not."""

import json

import pytest
import worlds
from judging import CLAIMS, PROVENANCE
from kept import AGAIN, KEPT, TABLES

from layernorm_roles import files, store
from layernorm_roles.evidence import claims
from layernorm_roles.evidence.claims import preregistration

SETTINGS = {
    "first_seed": 7,
    "majority": {"d8": {"steps": 10}, "d3": {"steps": 20}},
    "language_model": {"gpt": {"steps": 5}, "gpt_bytes": {"steps": 6}},
    "statements": {"fusion": {"seeds": 2}},
}

SHARED_OUT = ("seeds_per_job", "in_one_job", "runs_per_job", "checkpoint_every")


def hashes(settings=SETTINGS, of=claims.CLAIMS):
    return preregistration.rule_hashes(of, settings)


def write(path, settings, commit):
    preregistration.write_rules(path, claims.CLAIMS, settings, commit)


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def test_the_words_and_the_role_of_a_claim_belong_to_its_rule_and_where_it_is_from_does_not():
    """The word stands for any other text; as the part it gives the claim another role."""
    words = {"statement", "setting", "statistic", "unit", "control", "rule", "part"}
    names = words | {"source", "paper_value", "target"}
    copies = {name: hashes(of=[CLAIMS["accurate"].model_copy(update={name: "documents"})]) for name in names}
    assert {name for name in names if copies[name]["accurate"] != hashes()["accurate"]} == words


def test_only_the_settings_that_a_claim_depends_on_count():
    def with_settings(**sections):
        return changed(hashes(), hashes(SETTINGS | sections))

    deeper = with_settings(majority={"d8": {"steps": 10}, "d3": {"steps": 21}})
    assert "plane" in deeper and "faster" not in deeper
    assert with_settings(first_seed=8) == set(CLAIMS)
    wider = with_settings(language_model={"gpt": {"steps": 5}, "gpt_bytes": {"steps": 7}})
    assert "table_1_bytes" in wider and "table_1" not in wider
    also = with_settings(language_model=SETTINGS["language_model"] | {"gpt_rates": {"steps": 7}})
    assert "loss_gap_short" in also and "attention_worth" not in also, "it is held against the other model"
    shared_out = {"d8": {"steps": 10} | dict.fromkeys(SHARED_OUT, 2), "d3": {"steps": 20}}
    assert with_settings(device="cuda") == with_settings(majority=shared_out) == set()


MADE_FROM = {
    "random_keys": {"random_keys", "gaussian_law"},
    "pretrained": {"pretrained_keys", "attention_ceilings", "ones_share", "projection_shift"},
    "placement": {"placement", "untrained_gradients", "position_probe"},
    **{name: {name} for name in ("geometry", "fusion", "batch_dependence", "score_scale")},
}


@pytest.mark.parametrize(("section", "tables"), MADE_FROM.items())
def test_the_settings_behind_a_table_count_for_every_claim_that_reads_it(section, tables):
    statements = {name: {"seeds": 2} for name in MADE_FROM if name not in ("random_keys", "pretrained")}
    before = SETTINGS | {"random_keys": {"seeds": 2}, "pretrained": {"seeds": 2}, "statements": statements}
    edited = {section: {"seeds": 3}}
    after = before | ({"statements": statements | edited} if section in statements else edited)
    reading = {name for name, claim in CLAIMS.items() if tables & {*claim.tables}}
    assert changed(hashes(before), hashes(after)) == reading != set()


def test_rules_stand_from_the_first_result_on_and_judging_compares(tmp_path):
    file = tmp_path / "rules.json"
    write(file, {"first_seed": 3}, "c0ffee")
    write(file, SETTINGS, "c0ffee")
    first = file.read_bytes()
    one = json.loads(first)
    assert one == {"commit": "c0ffee", "rules": hashes()}, "without results the last rules count"
    (tmp_path / "data").mkdir()
    write(file, {"first_seed": 3}, "decaf")
    assert file.read_bytes() == first
    one["rules"]["plane"] = "0" * 16
    files.write_text(file, json.dumps(one))
    path = tmp_path / "random_keys.parquet"
    store.write(worlds.random_keys({"none": (1.0, 0.0)}), "random_keys", path, PROVENANCE)
    for at_start, others in ((file, "before"), (tmp_path / "none.json", "after")):
        out = [tmp_path / f"{name}.parquet" for name in ("claims", "comparisons")]
        claims.judge_files({"random_keys": path}, *out, at_start, SETTINGS)
        found = store.read(tmp_path / "claims.parquet", "claims").set_index("claim").rule_fixed
        assert found["plane"] == "after" and found["faster"] == others
    for other in ("[]", json.dumps(one["rules"])):
        files.write_text(file, other)
        with pytest.raises(ValueError, match=r"rules\.json"):
            preregistration.read_rules(file)


def test_what_is_asked_again_gets_the_verdict_of_its_own_runs_and_rules_and_nothing_else_does(tmp_path):
    """Without scaling keys are unselectable in the first runs alone; the second have another claim's runs as well."""
    again, out = tmp_path / "again", [tmp_path / f"{name}.parquet" for name in ("claims", "comparisons")]
    first, second = tmp_path / "random_keys.parquet", again / "parquet/random_keys.parquet"
    settings = SETTINGS | {"first_seed": 50_000}
    files.write_text(again / "settings.json", json.dumps(settings))
    write(again / "rules.json", settings, "c0ffee")
    bare = worlds.random_keys({"none": (1.0, 0.0)})
    store.write(bare, "random_keys", first, PROVENANCE | {"git_commit": "1st"})
    fewer = worlds.random_keys({"none": (0.1, 0.0), "layernorm": (0.0, 0.0)})
    store.write(fewer, "random_keys", second, PROVENANCE | {"git_commit": "2nd"})
    judged = []
    for folder in (None, again):
        claims.judge_files({"random_keys": first}, *out, tmp_path / "none.json", SETTINGS, folder)
        judged.append([store.read(path, path.stem) for path in out])
    (before, compared), (after, compared_after) = judged
    alone = claims.judge({"random_keys": fewer})
    assert [*after.claim] == [*CLAIMS]
    rows = ([repr(row) for row in table.to_numpy().tolist()] for table in (before, after))
    differing = [name for name, *pair in zip(CLAIMS, *rows, strict=True) if len({*pair}) > 1]
    assert differing == ["random_keys_layernorm"]
    rows = [table.set_index("claim").loc["random_keys_layernorm"] for table in (after, alone[0])]
    assert rows[0].verdict == rows[1].verdict == "reproduced" and rows[0].rule_fixed == "before"
    said = " Asked again, on seeds from 50,000 on, because runs on other seeds left it undecided."
    assert rows[0].setting == rows[1].setting + said
    assert {*after.rule_fixed[after.claim != "random_keys_layernorm"]} == {"after"}
    taken = [table[table.claim == "random_keys_layernorm"] for table in (compared_after, alone[1])]
    assert [*taken[0].estimate] == [*taken[1].estimate] != []
    kept = compared_after[compared_after.claim == "random_keys"]
    assert [*kept.estimate] == [*compared[compared.claim == "random_keys"].estimate] != []
    assert store.read_provenance(out[0])["git_commit"] == "1st, 2nd"


def test_a_claim_that_stays_undecided_has_the_numbers_of_both_runs():
    runs = [worlds.losses(0.05, seeds=n, worth=w) for n, w in ((3, 0.051), (4, 0.052))]
    first, second = (claims.judge({"language_model_metrics": table}) for table in runs)
    found = first[0], second[0], claims.asked_again(first, second, 7000)[0]
    before, later, after = (table.set_index("claim") for table in found)
    row, told = (table.loc["attention_worth"] for table in (later, after))
    assert before.verdict["attention_worth"] == row.verdict == told.verdict == "not tested"
    says = f"Asked again, on seeds from 7,000 on, it stays undecided: {row.measured:.3g} [{row.ci_low:.3g}, "
    assert told.reason.endswith(f"{says}{row.ci_high:.3g}], 4 runs.") and told.measured != row.measured
    assert after.reason["faster"] == before.reason["faster"], "neither has such runs"


def test_the_kept_run_vouches_for_the_claims_whose_words_and_numbers_it_began_with():
    """A threshold, a word or a setting that changes by mistake is noticed; if on purpose, the kept tables are old."""
    at_start = preregistration.read_rules(KEPT / "rules.json")
    written = json.loads((KEPT / "rules.json").read_text(encoding="utf-8"))
    assert written == {"commit": "d4208cce1f57129729ed8cbdce5bc995630a78b5", "rules": at_start}
    settings = json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))
    today, kept = hashes(settings), TABLES["claims"].set_index("claim").rule_fixed
    before = {name for name, rule in today.items() if at_start.get(name) == rule}
    if AGAIN.folder.is_dir():  # its rules are those of other settings: other seeds, and more of them
        later = preregistration.read_rules(AGAIN.folder / "rules.json")
        asked = {*TABLES["claims"].claim[TABLES["claims"].setting.str.contains("Asked again")]}
        rules = hashes(json.loads((AGAIN.folder / "settings.json").read_text(encoding="utf-8")))
        before = before - asked | {name for name in asked if later.get(name) == rules[name]}
    assert before == set(kept.index[kept == "before"]) and len(before) > len(today) / 2

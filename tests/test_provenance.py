"""What a file says of where it comes from, and which files are refused by it."""

import hashlib
import platform
import subprocess
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import pytest

from layernorm_roles import provenance, random_streams
from layernorm_roles.random_streams import Stream

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"seed": 1, "settings": {"steps": 2, "more": 3}}, None),
        ({"seed": 1, "settings": {"steps": 4}}, "settings.steps = 4, expected 2"),
        ({"settings": {"steps": 2}}, "no seed, expected 1"),
        ({}, "no seed, expected 1; no settings.steps, expected 2"),
    ],
)
def test_a_file_that_lacks_or_contradicts_what_is_expected_is_refused(found, words):
    expected = {"seed": 1, "settings": {"steps": 2}}
    with pytest.raises(ValueError, match=rf"a file of another run \({words}\)") if words else nullcontext():
        provenance.refuse_contradiction("a.parquet", found, expected)
    with pytest.raises(ValueError, match=r"runs\.1\.seed = 3, expected 2\)"):
        provenance.refuse_contradiction(
            "a", {"runs": [{"seed": 1}, {"seed": 3}]}, {"runs": [{"seed": 1}, {"seed": 2}]}
        )


def test_a_file_carries_what_made_it_and_one_of_several_all_their_different_values():
    one = provenance.provenance({"b": 2, "a": 1}, "a card", Stream.FUSION, torch=True)
    config = b'{"a": 1, "b": 2}'
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    known = {
        "config": config.decode(),
        "config_sha256": hashlib.sha256(config).hexdigest(),
        "device": "a card",
    }
    known |= {"version": metadata.version("layernorm-roles"), "git_commit": head.stdout.strip() or "unknown"}
    known |= {"torch": metadata.version("torch"), "python": platform.python_version()}
    assert one == known | {"seed_rule": random_streams.describe((Stream.FUSION,), torch=True)}
    other = one | {"device": "another", "torch": "1.0"}
    joined = provenance.joined([one, other, one], {"c": 3})
    several = {"config": '{"c": 3}', "device": "a card, another", "torch": f"1.0, {one['torch']}"}
    assert joined == one | several | {"config_sha256": hashlib.sha256(b'{"c": 3}').hexdigest()}


def test_the_commit_is_that_of_this_code_whatever_git_is_told(tmp_path, monkeypatch):
    here = provenance.git_commit()
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    provenance.git_commit.cache_clear()
    assert provenance.git_commit() == here

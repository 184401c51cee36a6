"""What a file says of where it comes from, and which files are refused by it."""

import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from layernorm_roles import provenance, random_streams
from layernorm_roles.random_streams import Stream

ONE = {"seed": 1, "settings": {"steps": 2}}


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        ({"seed": 1, "settings": {"steps": 4}}, ONE, "settings.steps = 4, expected 2"),
        ({"settings": {"steps": 2}}, ONE, "no seed, expected 1"),
        ({}, ONE, "no seed, expected 1; no settings.steps, expected 2"),
        ({"runs": [ONE, {"seed": 3}]}, {"runs": [ONE, {"seed": 2}]}, "runs.1.seed = 3, expected 2"),
    ],
)
def test_a_file_that_lacks_or_contradicts_what_is_expected_is_refused(found, expected, words):
    provenance.refuse_contradiction("a.parquet", {**expected, "more": {"a": 3}}, expected)
    with pytest.raises(ValueError, match=rf"a file of another run \({words}\)"):
        provenance.refuse_contradiction("a.parquet", found, expected)


def test_a_file_carries_what_made_it_and_one_of_several_all_their_different_values(tmp_path, monkeypatch):
    """The commit is that of this code, whatever git is told."""
    here = Path(__file__).parent
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    provenance.git_commit.cache_clear()
    one = provenance.provenance({"b": 2, "a": 1}, "a card", Stream.FUSION, torch=True)
    config = '{"a": 1, "b": 2}'
    known = {"config": config, "config_sha256": hashlib.sha256(config.encode()).hexdigest()}
    known |= {"device": "a card", "version": metadata.version("layernorm-roles")}
    known |= {"git_commit": asked.stdout.strip() or "unknown", "torch": metadata.version("torch")}
    known["python"] = platform.python_version()
    assert one == known | {"seed_rule": random_streams.describe((Stream.FUSION,), torch=True)}
    joined = provenance.joined([one, one | {"device": "another", "torch": "1.0"}, one], {"c": 3})
    several = {"config": '{"c": 3}', "device": "a card, another", "torch": f"1.0, {one['torch']}"}
    assert joined == one | several | {"config_sha256": hashlib.sha256(b'{"c": 3}').hexdigest()}

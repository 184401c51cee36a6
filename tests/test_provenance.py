"""What a file says of where it comes from, also of its random streams, and which files are refused by it."""

import hashlib
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch

from layernorm_roles import provenance, random_streams
from layernorm_roles.random_streams import Stream, generator

ONE = {"seed": 1, "settings": {"steps": 2}}


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        ({"seed": 1, "settings": {"steps": 4}}, ONE, "settings.steps = 4, expected 2"),
        ({}, ONE | {"z": 0}, "no seed, expected 1; no settings.steps, expected 2; no z, expected 0"),
        ({"runs": [ONE, {"seed": 3}]}, {"runs": [ONE, {"seed": 2}]}, "runs.1.seed = 3, expected 2"),
        ({"runs": [ONE, ONE]}, {"runs": [ONE]}, "number of runs = 2, expected 1"),
        ({"norms": {"a": 1}}, {"norms": {}}, "no norms, expected {}"),
        ({}, dict.fromkeys("abcd", 1), "no a, expected 1; no b, expected 1; no c, expected 1 and 1 more"),
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
    monkeypatch.setenv("PATH", str(tmp_path))
    provenance.git_commit.cache_clear()
    assert provenance.git_commit() == "unknown", "without git"
    provenance.git_commit.cache_clear()


def test_the_commit_of_a_repository_into_which_the_package_was_copied_is_not_recorded(tmp_path):
    package = Path(provenance.__file__).parent
    shutil.copytree(
        package, tmp_path / "tools/src/layernorm_roles", ignore=shutil.ignore_patterns("__pycache__")
    )
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C"]
    program = "from layernorm_roles.provenance import git_commit; print(git_commit())"

    def commit_of(repository):
        subprocess.run([*git, repository, "init", "--quiet"], check=True)
        subprocess.run([*git, repository, "commit", "--quiet", "--allow-empty", "-m", "x"], check=True)
        head = subprocess.check_output([*git, repository, "rev-parse", "HEAD"], text=True)
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "tools/src")}
        return head, subprocess.check_output([sys.executable, "-c", program], text=True, env=environment)

    assert commit_of(tmp_path)[1] == "unknown\n"
    head, found = commit_of(tmp_path / "tools")
    assert found == head


INTEGERS = (0, 1, 2, 3, 12, 600, 2**32 - 1)


def test_no_two_streams_share_their_first_draws():
    """Every stream, for every combination of some seeds and settings, those of other streams' numbers among them."""
    seen = {}
    for stream in Stream:
        for integers in itertools.product(INTEGERS, repeat=len(stream.integers)):
            first = tuple(generator(stream, *integers).integers(2**63, size=4))
            assert first not in seen, (stream, integers, seen[first])
            seen[first] = (stream, integers)
    assert len(seen) > 500 and [stream.number for stream in Stream] == [*range(len(Stream))]
    with pytest.raises(TypeError, match="RANDOM_KEYS"):
        generator(Stream.RANDOM_KEYS, 0, 3)


def test_the_sentence_in_the_metadata_makes_the_stream_again():
    text = random_streams.describe((Stream.RANDOM_KEYS, Stream.TEXT_SELECTION), torch=True)
    first, second = re.findall(r"random_streams\.generator\(.*?\)", text)
    assert second.endswith("(Stream.TEXT_SELECTION, seed, texts)") and "torch.manual_seed(seed)" in text
    scope = {"seed": 7, "n": 3, "d": 5, "Stream": Stream, "random_streams": random_streams}
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(2, 3, 5))).standard_normal(3)
    np.testing.assert_array_equal(eval(first, scope).standard_normal(3), expected)
    assert random_streams.describe(()) == "nothing is random"
    random_streams.seed_torch(7)
    assert torch.initial_seed() == 7

"""Files appear whole or not at all, and a damaged one is never read."""

import hashlib
import os
import subprocess

import pytest

from layernorm_roles import files


def test_what_was_written_is_read_and_has_the_checksum_that_sha256sum_checks(tmp_path):
    text = "ä\n" * 10**6  # more than is read at a time
    files.write_text(tmp_path / "a.txt", text)
    assert files.read_bytes(tmp_path / "a.txt") == text.encode()
    done = subprocess.run(["sha256sum", "--check", ".sha256/a.txt"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done
    (tmp_path / "b.txt").write_text("b")
    both = hashlib.sha256(b"b" + text.encode()).hexdigest()
    assert files.sha256_of(tmp_path / "b.txt", tmp_path / "a.txt") == both


@pytest.mark.parametrize("content", [b"", b"0123456", b"01234567\n", b"01234577"])
def test_a_flipped_bit_a_cut_and_an_addition_are_noticed(tmp_path, content):
    path = tmp_path / "a.bin"
    with files.atomic_write(path) as partial:
        partial.write_bytes(b"01234567")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.bin: damaged.*delete it and run again"):
        files.read_bytes(path)


def test_a_missing_file_a_missing_checksum_and_a_wrong_checksum_are_told_apart(tmp_path):
    path = tmp_path / "a.txt"

    def refused(says):
        with pytest.raises(ValueError, match=rf"a\.txt: {says}"):
            files.read_bytes(path)

    refused("no such file")
    path.write_text("text")
    refused(r"no checksum in \.sha256/")
    (tmp_path / ".sha256").mkdir()
    files.checksum_file(path).write_bytes(b"\xff\xfe")
    refused("damaged")
    path.unlink()
    path.mkdir()
    refused(r"not readable \(")


def test_a_folder_is_checked_file_by_file(tmp_path):
    for name in ("a.txt", "deep/b.txt", "deep/c.txt"):
        files.write_text(tmp_path / name, name)
    for name in ("logs/d.log", "logs/deep/d.log", "deep/.hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("no checksum")
    assert files.faults(tmp_path, beside=("logs",)) == []
    (tmp_path / "deep/b.txt").write_text("damaged")
    (tmp_path / "e.txt").write_text("from elsewhere")
    first, second = files.faults(tmp_path, beside=("logs",))
    assert first.startswith(f"{tmp_path / 'deep/b.txt'}: damaged") and "delete it and run again" in first
    assert second.startswith(f"{tmp_path / 'e.txt'}: no checksum")
    (tmp_path / "deep/logs").mkdir()
    (tmp_path / "deep/logs/f.log").write_text("not right under the folder")
    assert [len(files.faults(tmp_path, beside=names)) for names in (("logs",), ())] == [3, 5]
    files.write_text(tmp_path / "far/away/g.txt", "g")
    (tmp_path / "far/away/g.txt").unlink()
    (tmp_path / "far/.sha256").mkdir()
    (tmp_path / "far/.sha256/.h.txt.7.partial").touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/runs").symlink_to(tmp_path / "far")
    (said,) = files.faults(tmp_path / "linked")
    assert said.startswith(f"{tmp_path}/linked/runs/away/g.txt: gone, while its checksum is there; copy it")


def test_an_error_while_writing_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.atomic_write(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old" and partial.name == f".a.{os.getpid()}.partial.txt"
        raise RuntimeError
    assert files.read_bytes(path) == b"old"
    before = path.stat().st_ino
    files.replace_text(path, "new")
    assert path.stat().st_ino != before, "another file in its place"
    assert sorted(file.name for file in tmp_path.iterdir()) == [".sha256", "a.txt"]


def test_what_killed_processes_left_of_outputs_and_checkpoints_goes_and_nothing_else(tmp_path):
    gone = {".a[1].12.partial.npy", ".checkpoint_3.7.partial.safetensors", ".a[1].12.partial"}
    stays = {"a[1].npy", ".a1.12.partial.npy", ".b.12.partial.npy", "checkpoint_3.safetensors"}
    for name in gone | stays:
        (tmp_path / name).touch()
    files.remove_partials([tmp_path / "a[1].npy"])
    assert {path.name for path in tmp_path.iterdir()} == stays

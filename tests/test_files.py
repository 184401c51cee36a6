"""Files appear whole or not at all, and a damaged one is never read."""

import subprocess

import pytest

from layernorm_roles import files


def test_what_was_written_is_read_and_has_the_checksum_that_sha256sum_checks(tmp_path):
    files.write_text(tmp_path / "a.txt", "ä\n")
    assert files.read_bytes(tmp_path / "a.txt") == "ä\n".encode()
    files.verify(tmp_path / "a.txt")
    done = subprocess.run(["sha256sum", "--check", ".sha256/a.txt"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done


@pytest.mark.parametrize("read", [files.read_bytes, files.verify])
def test_each_flipped_bit_and_each_cut_is_noticed(tmp_path, read):
    path = tmp_path / "a.bin"
    with files.atomic_write(path) as partial:
        partial.write_bytes(bytes(range(32)))
    whole = path.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"a\.bin: damaged.*delete it and run again"):
                read(path)
        path.write_bytes(whole[:position])
        with pytest.raises(ValueError, match="damaged"):
            read(path)
    path.write_bytes(whole)
    read(path)


@pytest.mark.parametrize("read", [files.read_bytes, files.verify])
def test_a_missing_file_a_missing_checksum_and_a_damaged_checksum_are_told_apart(tmp_path, read):
    path = tmp_path / "a.txt"
    with pytest.raises(ValueError, match=r"a\.txt: no such file"):
        read(path)
    path.write_text("text")
    with pytest.raises(ValueError, match=r"a\.txt: no checksum in \.sha256/"):
        read(path)
    files.write_text(path, "text")
    files.checksum_file(path).write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"a\.txt: not readable"):
        read(path)


def test_the_checksum_of_another_file_does_not_serve(tmp_path):
    """Two files of equal content have different records, because the name is part of the record."""
    files.write_text(tmp_path / "a.txt", "text")
    files.write_text(tmp_path / "b.txt", "other")
    record = files.checksum_file(tmp_path / "a.txt").read_text()
    files.checksum_file(tmp_path / "b.txt").write_text(record)
    (tmp_path / "b.txt").write_text("text")
    with pytest.raises(ValueError, match="damaged"):
        files.read_bytes(tmp_path / "b.txt")


def test_a_folder_is_checked_file_by_file(tmp_path):
    for name in ("a.txt", "deep/b.txt", "deep/c.txt"):
        files.write_text(tmp_path / name, name)
    for name in ("logs/d.log", "logs/deep/d.log"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("no checksum")
    assert files.faults(tmp_path, beside=("logs",)) == []
    (tmp_path / "deep/b.txt").write_text("damaged")
    (tmp_path / "e.txt").write_text("from elsewhere")
    first, second = files.faults(tmp_path, beside=("logs",))
    (tmp_path / "deep/logs").mkdir()
    (tmp_path / "deep/logs/f.log").write_text("not right under the folder")
    assert len(files.faults(tmp_path, beside=("logs",))) == 3
    assert first.startswith(f"{tmp_path / 'deep/b.txt'}: damaged") and "delete it and run again" in first
    assert second.startswith(f"{tmp_path / 'e.txt'}: no checksum")
    assert len(files.faults(tmp_path)) == 5


def test_an_error_while_writing_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.atomic_write(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        raise RuntimeError
    assert files.read_bytes(path) == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == [".sha256", "a.txt"]

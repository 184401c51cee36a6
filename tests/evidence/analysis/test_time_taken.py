"""Durations from benchmark files."""

import pytest

from layernorm_roles.evidence.analysis.durations import durations

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write(file, seconds, memory):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEADER + f"{seconds}\t0:00:01\t{memory}\t-\t-\t-\t0\t0\t90\t1\n")
    return file


def test_jobs_of_a_rule_add_up_however_deep_their_files_lie(tmp_path):
    folder = tmp_path / "benchmarks"
    files = [
        write(folder / "figures.tsv", 30, "-"),
        write(folder / "train/d8/none/seed_0.tsv", 60, 500),
        write(folder / "train/d8/none/seed_1.tsv", 120, 700),
    ]
    table = durations(map(str, files)).set_index("rule")
    assert list(table.index) == ["train", "figures"]
    assert table.loc["train"].to_list() == [2, 3.0, 700]
    assert table.loc["figures", "wall_minutes"] == 0.5


def test_no_files_and_files_elsewhere_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no benchmark files"):
        durations([])
    with pytest.raises(ValueError, match=r"odd\.tsv: expected a benchmark file"):
        durations([write(tmp_path / "odd.tsv", 1, 1)])

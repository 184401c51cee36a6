import pytest

from layernorm_roles.evidence import durations

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write(file, seconds, memory):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEADER + f"{seconds}\t0:00:01\t{memory}\t-\t-\t-\t0\t0\t90\t1\n")


def test_jobs_of_a_rule_add_up_however_deep_their_files_lie(tmp_path):
    write(tmp_path / "train/d8/none/seed_0.tsv", 60, 500)
    write(tmp_path / "train/d8/none/seed_1.tsv", 120, 700)
    write(tmp_path / "figures.tsv", 30, "-")
    table = durations.durations(tmp_path).set_index("rule")
    assert list(table.index) == ["train", "figures"]
    assert table.loc["train"].to_list() == [2, 3.0, 700]
    assert table.loc["figures", "wall_minutes"] == 0.5


def test_a_folder_without_benchmarks_is_named(tmp_path):
    with pytest.raises(ValueError, match=str(tmp_path)):
        durations.durations(tmp_path)

"""Durations from benchmark files."""

import math
import re

import pytest
from default_settings import ROOT

from layernorm_roles import catalogue
from layernorm_roles.evidence.analysis.durations import durations

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write(file, seconds, memory):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEADER + f"{seconds}\t0:00:01\t{memory}\t-\t-\t-\t0\t0\t90\t1\n")
    return file


def test_a_stage_that_computes_is_a_rule_and_leaves_its_benchmark_under_its_name(tmp_path):
    """The time left of a run is estimated from them, by the names of the rules."""
    text = "".join(file.read_text() for file in sorted((ROOT / "workflow/rules").glob("*.smk")))
    loops = re.findall(r'(?m)^for \w+ in \(((?:"\w+",? ?)+)\):', text)
    rules = {*re.findall(r"(?m)^rule (\w+):", text), *re.findall(r"\w+", " ".join(loops))}
    assert {*catalogue.COMPUTING} <= rules
    for stage in catalogue.COMPUTING:
        assert stage in loops[0] or re.search(rf"/benchmarks/{stage}[/.]", text)
        assert durations([write(tmp_path / f"benchmarks/{stage}/x.tsv", 1, 1)]).rule.to_list() == [stage]


@pytest.mark.parametrize("content", [None, b"", b"\0\xff\0", b"s\tmax_rss\n", b"other\n1\n"])
def test_jobs_of_a_rule_add_up_and_a_file_that_is_gone_or_damaged_leaves_it_without_a_time(tmp_path, content):
    folder = tmp_path / "benchmarks"
    memory = enumerate((499, "-", 500))
    files = [write(folder / f"train/d8/none/seed_{n}.tsv", 60 + 60 * n, most) for n, most in memory]
    files.append(write(folder / "page.tsv", 6, 9))
    assert durations(map(str, files)).to_numpy().tolist() == [["train", 3, 6.0, 500.0], ["page", 1, 0.1, 9.0]]
    files[1].unlink() if content is None else files[1].write_bytes(content)
    table = durations(files)
    assert table.rule.to_list() == ["page", "train"] and table.jobs.to_list() == [1, 3]
    assert table.wall_minutes[0] == 0.1 and math.isnan(table.wall_minutes[1])

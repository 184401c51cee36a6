"""The attacks on a reproduction as a table: what was tried, how often, and how often it held.

    python tests/attacks [--faults 300] [--keys 100000] [--configurations 300] [--seed 0] [--jobs 3]

The default numbers take minutes; those above take hours on two cores, most of them for the configurations. What does
not hold is told by pytest above the table.
"""

import argparse
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ATTACKS = {
    "a process or disk fault of each kind, in a run of all stages": [
        "attacks/test_many_faults.py::test_of_all_stages"
    ],
    "process and disk faults at random moments": ["attacks/test_many_faults.py::test_of_one_experiment"],
    "working folder, links, rights, clocks, signals": ["attacks/test_circumstances.py"],
    "valid files of another run": ["attacks/test_swapped.py"],
    "settings that the check accepts, run": ["attacks/test_configurations.py"],
    "misleading YAML and settings that would fail late": ["attacks/test_yaml.py"],
    "keys at the boundary of the hull, against rational arithmetic": ["attacks/test_hostile_keys.py"],
    "flipped bits in results": [
        "test_store.py::test_a_damaged_file_is_never_read",
        "test_checkpoint.py::test_missing_damaged_and_foreign_files_are_named",
        "text/test_token_streams.py::test_a_file_that_changed_since_it_was_written_is_never_read",
    ],
    "hostile files for certify-keys": ["selectability/test_command_line.py"],
    "damaged, shared or planted compiled code": ["test_compiled.py"],
    "names, texts and settings as code": ["workflow/test_security.py"],
    "names that are code, in the report and in a browser": [
        "evidence/page/test_page.py::test_hostile_names_stay_text",
        "evidence/page/test_browser.py::test_no_hostile_name_ran_as_code",
    ],
    "jobs that end by signals, orphans, memory that is used up": ["test_job.py"],
    "a SLURM whose controller, node, time or disk fails": ["workflow/slurm/test_slurm_attacks.py"],
    "a machine whose encoding is ASCII": ["attacks/test_encodings.py"],
}
"""The tests of each attack. A test that tries many things says how many with the properties tried and held."""


class Tally:
    """A pytest plugin that counts what the tests of each attack tried, and what held."""

    def __init__(self):
        self.tried, self.held = defaultdict(int), defaultdict(int)

    def pytest_runtest_logreport(self, report) -> None:
        """Count a test, as one trial or as many as it says."""
        if report.when != "call" and not report.failed:
            return
        said = dict(report.user_properties)
        for attack, places in ATTACKS.items():
            if any(
                report.nodeid.split("[")[0].endswith(place) or f"{place}::" in report.nodeid
                for place in places
            ):
                tried = said.get("tried", 1)
                self.tried[attack] += tried
                self.held[attack] += said.get("held", tried if report.passed else 0)


def main() -> int:
    """Run the attacks and print the table; the exit status is 1 where something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--faults", type=int, default=20, help="faults of processes and disks in a run of one experiment"
    )
    parser.add_argument("--keys", type=int, default=2_000, help="keys that are judged exactly as well")
    parser.add_argument("--configurations", type=int, default=3, help="accepted configurations that are run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="such runs side by side")
    parser.add_argument("--only", help="only attacks whose name contains this text")
    options = parser.parse_args()
    for name in ("faults", "keys", "configurations", "seed", "jobs"):
        os.environ[f"ATTACK_{name.upper()}"] = str(getattr(options, name))
    chosen = {name: places for name, places in ATTACKS.items() if (options.only or "") in name}
    places = [str(TESTS / place) for places in chosen.values() for place in places]
    tally = Tally()
    status = pytest.main([*places, "-m", "not gpu", "--durations=0", "-rA"], plugins=[tally])
    print("\n| attack | tried | held |\n| --- | ---: | ---: |")
    for name in chosen:
        print(f"| {name} | {tally.tried[name]:,} | {tally.held[name]:,} |")
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())

"""Estimates the time until a workflow ends, from its finished jobs and from the times that jobs took earlier."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

MEASURED_SHARE = 0.02
"""An estimate is made once jobs are done that took this share of the time of all jobs in an earlier workflow."""

UNKNOWN_SECONDS = 5.0
"""Seconds expected of a job whose rule has no known time; most such jobs draw figures or write tables."""

OVERRUN_SECONDS = 30.0
"""There is no estimate while a job runs for twice its expected time and so many seconds longer than expected."""


class Remaining:
    """Estimates the time until a workflow ends, from the times of its finished jobs and of jobs that were done before.

    `jobs` has the number of all jobs that the workflow is to do, by rule. `earlier` has, by rule, the mean number of
    seconds that a job took in an earlier execution. A job of any other rule is expected to take 5 seconds until one of
    the rule has finished. Call `finished` for every job that finishes, and `seconds` for an estimate.
    """

    def __init__(self, jobs: Mapping[str, int], earlier: Mapping[str, float]):
        self._earlier = earlier
        self._left = Counter(jobs)
        self._work = sum(number * earlier.get(rule, 0.0) for rule, number in jobs.items())
        self._seen: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()

    def finished(self, rule: str, seconds: float) -> None:
        """Take into account, for later estimates, that a job of the rule `rule` has finished after `seconds`."""
        self._left[rule] -= 1
        self._seen[rule] += 1
        self._spent[rule] += seconds

    def seconds(self, elapsed: float, running: Iterable[tuple[str, float]]) -> float | None:
        """Estimate the seconds until the workflow ends; None while too little is known.

        `elapsed` is the number of seconds since the first job began. `running` has, for each job that is running, its
        rule and the number of seconds that it has run.
        """
        known = [rule for rule in self._seen if rule in self._earlier]
        measured = sum(self._seen[rule] * self._earlier[rule] for rule in known)
        if not self._seen or measured < MEASURED_SHARE * self._work:
            return None
        # Another machine, or other sizes, than those of the earlier workflow.
        speed = sum(self._spent[rule] for rule in known) / measured if measured else 1.0
        expected = {rule: speed * self._earlier.get(rule, UNKNOWN_SECONDS / speed) for rule in self._left}
        expected |= {rule: self._spent[rule] / number for rule, number in self._seen.items()}
        left = sum(number * expected[rule] for rule, number in self._left.items())
        busy = sum(self._spent.values())
        for rule, spent in running:
            if spent > max(2 * expected[rule], expected[rule] + OVERRUN_SECONDS):
                return None
            left -= min(spent, expected[rule])
            busy += spent
        # `busy` over `elapsed` is how many jobs ran at a time.
        return max(left, 0.0) * elapsed / busy if busy else None


def seconds_by_rule(file: Path) -> dict[str, float]:
    """The mean number of seconds that a job took, by rule, from a CSV file with columns rule, jobs and wall_minutes.

    wall_minutes is the total of all `jobs`; a rule without it is left out. Empty if the file is missing or faulty.
    """
    try:
        with file.open(encoding="utf-8", newline="") as text:
            rows = [row for row in csv.DictReader(text) if row["wall_minutes"] != ""]
            return {row["rule"]: 60 * float(row["wall_minutes"]) / int(row["jobs"]) for row in rows}
    except (OSError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return {}

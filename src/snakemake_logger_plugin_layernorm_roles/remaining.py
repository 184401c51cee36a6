"""How long the unfinished jobs of a run take, from those that have finished and from what an earlier run took."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

MEASURED_SHARE = 0.02
"""Share of a run's work, by the earlier run, that must be done before there is an estimate."""

UNKNOWN_SECONDS = 5.0
"""What a job is expected to take if the earlier run does not know its rule: drawing and writing tables."""

OVERRUN_SECONDS = 30.0
"""While a job has run so much longer than expected, and twice as long, there is no estimate."""


class Remaining:
    """An estimate of the time left in a run.

    By the number of jobs alone an estimate would lie, because a training takes minutes and its data a second.
    `jobs` are the numbers of jobs by rule; `earlier` the seconds that a job of a rule took in an earlier run.
    """

    def __init__(self, jobs: Mapping[str, int], earlier: Mapping[str, float]):
        self._earlier = earlier
        self._left: Counter[str] = Counter()
        for rule, number in jobs.items():
            self._left[self._kind(rule)] += number
        self._work = sum(number * earlier.get(kind, 0.0) for kind, number in self._left.items())
        self._seen: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()

    def finished(self, rule: str, seconds: float) -> None:
        """Count a job of `rule` that took `seconds`."""
        kind = self._kind(rule)
        self._left[kind] -= 1
        self._seen[kind] += 1
        self._spent[kind] += seconds

    def seconds(self, elapsed: float, running: Iterable[tuple[str, float]]) -> float | None:
        """Seconds until the run ends, or None while too little is known.

        `elapsed` are the seconds since the first job began, and `running` holds, for each running job, its rule and
        the seconds since it began.
        """
        known = [kind for kind in self._seen if kind in self._earlier]
        measured = sum(self._seen[kind] * self._earlier[kind] for kind in known)
        if not self._seen or measured < MEASURED_SHARE * self._work:
            return None
        # Another machine, or other sizes, than those of the earlier run.
        speed = sum(self._spent[kind] for kind in known) / measured if measured else 1.0
        left, busy = 0.0, sum(self._spent.values())
        for kind, number in self._left.items():
            left += number * self._expected(kind, speed)
        for rule, spent in running:
            expected = self._expected(self._kind(rule), speed)
            if spent > max(2 * expected, expected + OVERRUN_SECONDS):
                return None
            left -= min(spent, expected)
            busy += spent
        # `busy` over `elapsed` is how many jobs ran at a time.
        return max(left, 0.0) * elapsed / busy if busy else None

    def _expected(self, kind: str, speed: float) -> float:
        if self._seen[kind]:
            return self._spent[kind] / self._seen[kind]
        return speed * self._earlier[kind] if kind in self._earlier else UNKNOWN_SECONDS

    def _kind(self, rule: str) -> str:
        """The rule of the earlier run to which `rule` belongs: majority_train for majority_train_rates_scale_..."""
        found = [kind for kind in self._earlier if rule == kind or rule.startswith(f"{kind}_")]
        return max(found, key=len, default=rule)


def seconds_by_rule(file: str | Path | None) -> dict[str, float]:
    """Mean seconds of a job by rule, from a CSV file with columns rule, jobs and wall_minutes.

    Empty without such a file: the time left is not worth stopping a run.
    """
    if file is None or not Path(file).is_file():
        return {}
    try:
        with Path(file).open(encoding="utf-8", newline="") as rows:
            return {
                row["rule"]: 60 * float(row["wall_minutes"]) / int(row["jobs"])
                for row in csv.DictReader(rows)
            }
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return {}

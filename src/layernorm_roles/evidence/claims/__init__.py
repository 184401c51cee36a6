"""Every claim, its test and its verdict, from Parquet alone.

claims.yaml says what is claimed and how it is tested; `rules` has the thresholds and how a verdict is reached;
`projection`, `scaling` and `documents` have the tests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from layernorm_roles import store
from layernorm_roles.evidence.claims import documents, projection, rules, scaling
from layernorm_roles.evidence.claims.rules import Claim, Outcome, Verdict

AGAIN = " Again, on uniformly drawn partitions, none of them in both training and test."
_LISTS = ("tables", "figures", "shown")


def _claims() -> Iterator[Claim]:
    tests = scaling.TESTS | documents.TESTS
    for entry in yaml.safe_load((Path(__file__).parent / "claims.yaml").read_text()):
        experiment, again = entry.pop("experiment", None), entry.pop("again", None)
        if again is None:
            yield _claim(entry, tests[entry["name"]])
            continue
        test = projection.TESTS[entry["name"]]
        yield _claim(entry, partial(test, experiment))
        changed = {
            "name": entry["name"] + "_uniform",
            "source": entry["source"] + "; on other data",
            "statement": entry["statement"] + AGAIN,
        }
        yield _claim(entry | changed | again, partial(test, again["experiment"]))


def _claim(entry: Mapping[str, Any], test: Callable[..., Outcome]) -> Claim:
    """With the thresholds filled in, and without the key that only the test needs."""
    texts = {key: text and text.format_map(vars(rules)) for key, text in entry.items() if key not in _LISTS}
    texts.pop("experiment", None)
    return Claim(**texts, **{key: tuple(entry[key]) for key in _LISTS}, test=test)


CLAIMS: tuple[Claim, ...] = tuple(_claims())

TABLES = tuple(dict.fromkeys([name for claim in CLAIMS for name in claim.tables] + ["random_keys_precision"]))
"""Of a run's parquet folder: what the tests may read."""


def judge(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Table `claims`: one row for every claim, from those of the run's tables that are there."""
    rows = []
    for claim in CLAIMS:
        outcome = claim.judge(tables)
        rows.append(
            {
                "claim": claim.name,
                "source": claim.source,
                "statement": claim.statement,
                "paper_value": claim.paper_value,
                "statistic": claim.statistic,
                "measured": outcome.measured.mean,
                "ci_low": outcome.measured.low,
                "ci_high": outcome.measured.high,
                "n_seeds": outcome.n_seeds,
                "control": claim.control,
                "verdict": str(outcome.verdict),
                "reason": outcome.reason,
            }
        )
    return pd.DataFrame(rows)


def judge_files(paths: Iterable[Path], out: str | Path) -> None:
    """Write table `claims` to `out`, from those of the Parquet files that the tests read.

    Its provenance is that of these files, joined: judging computes nothing random, and so the same files and the
    same code give the same bytes.
    """
    chosen = {path.stem: path for path in paths if path.stem in TABLES}
    sources = [store.about(path) for path in chosen.values()]
    keys = dict.fromkeys(key for source in sources for key in source if key not in ("table", "config"))
    about = {key: ", ".join(sorted({source[key] for source in sources if key in source})) for key in keys}
    store.write(judge({name: store.read(path, name) for name, path in chosen.items()}), "claims", out, about)


__all__ = ["CLAIMS", "TABLES", "Claim", "Verdict", "judge", "judge_files"]

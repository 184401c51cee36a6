"""A tiny reproduction with names that try to become markup."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import html5lib
import numpy as np
import pandas as pd
import worlds
from PIL import Image

from layernorm_roles import files, shown, store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.page import page as report

HOSTILE = "<script>ran='1'</script><img src=x onerror=ran=2>"
"""A name that runs as code, if a page or a script of it ever takes a name for HTML."""
FOLDER = "<img src=x onerror=ran=3>"
"""A folder's name of this kind; it holds no slash."""
PAGES = ("report.html", "findings.html", "findings.md")
OPTIONS = "--configfile workflow/presets/smoke.yaml"


@dataclass(frozen=True)
class World:
    """A finished reproduction: its folder, what its page is made from, and the page's text."""

    folder: Path
    plan: dict
    inputs: dict
    page: str


def parsed(page: str):
    """A page by the rules of HTML; any parse error raises."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def words(element) -> str:
    return " ".join("".join(element.itertext()).split())


def rows(element) -> list[list[str]]:
    return [[words(cell) for cell in row.iter("td")] for row in element.iter("tr")]


def draw(path: Path, width: int, height: int) -> None:
    """Write a figure of this size in pixels, with its checksum."""
    with files.atomic_write(path) as partial:
        Image.new("L", (width, height), "white").save(partial, "PNG")


def vectors() -> pd.DataFrame:
    """Three runs of each variant in three dimensions, flat with LayerNorm only, one in four; tokens come reversed."""
    flat = {"layernorm": True, "scale": False, HOSTILE: False}
    three = worlds.vectors(flat, {}, experiment="three", seeds=3)
    both = [three, worlds.vectors({"layernorm": True}, {}, dim=4, seeds=1)]
    return pd.concat(both).sort_values("token", ascending=False, kind="stable", ignore_index=True)


def claims() -> pd.DataFrame:
    """A row for each claim with numbers, a control and a hostile reason; verdicts take turns, runs are 1 or 1,300."""
    texts = ["source", "statement", "paper_value", "statistic", "control", "kind"]
    numbers = {"measured": 3.25, "ci_low": 2.5, "ci_high": 4.0, "reported": 6.5}
    numbers |= {"control_measured": 1.125, "control_low": -0.875, "control_high": 1.375, "p_holm": 0.0312}
    frame = pd.DataFrame([[getattr(claim, text) for text in texts] for claim in CLAIMS], columns=texts)
    frame = frame.assign(claim=[claim.name for claim in CLAIMS], **numbers)
    frame["n_seeds"] = [1 if len(name) % 3 == 0 else 1300 for name in frame.claim]
    frame["verdict"] = [str(verdict) for _, verdict in zip(CLAIMS, itertools.cycle(Verdict), strict=False)]
    frame["also_passed_by"] = np.where(frame.verdict == Verdict.HOLDS, "untrained models", None)
    frame["role"] = ["primary" if claim.primary else "exploratory" for claim in CLAIMS]
    frame.loc[frame.verdict == Verdict.NOT_RUN, [*numbers]] = np.nan
    frame["setting"] = [("twice as many seeds", "one seed")[len(name) // 2 % 2] for name in frame.claim]
    return frame.assign(reason=f"It is so {HOSTILE} & \"quoted\" 'too'.")


def comparisons() -> pd.DataFrame:
    """Six comparisons of the claim faster, in a wrong order: the last of a variation, the fifth without a criterion."""
    names = ["a over b", "c over b", "d over b", HOSTILE, "f over b", "On other data: a over b"]
    rows = [
        (
            "faster",
            n,
            name,
            "steps",
            n / 2,
            n / 4,
            n,
            "×",
            3,
            "" if n == 5 else "at least 1.73",
            met,
            "effect",
        )
        for n, name, met in zip(range(1, 7), names, [True, False, None, True, None, False], strict=True)
    ]
    columns = "claim number comparison statistic estimate ci_low ci_high unit n_runs asked met role".split()
    return pd.DataFrame(rows[::-1], columns=columns)


def settings() -> dict:
    seeds = {"layernorm": 3, "scale": 3}
    experiment = {"d_model": [3], "learning_rate": [0.001], "steps": 5000, "seeds": seeds}
    model = experiment | {"architecture": "gpt", "steps": [9], "learning_rate": [0.001, 0.01]}
    majority = {"three": experiment, HOSTILE: experiment | {"learning_rate": [0.001, 0.01]}}
    return {"majority": majority, "language_model": {"gpt": model}}


def make(folder: Path) -> World:
    """Write the tiny reproduction to `folder`, with its page in report.html."""
    source = {"config": '{"note": "</pre>&amp;"}', "device": HOSTILE, "git_commit": "0123456789abcdef"}
    ratios = {"layernorm": 1.0, HOSTILE: 1.0}
    metrics = worlds.metrics(ratios, experiment="three", seeds=2, last=2000, d_model=3)
    frames = {
        "claims": claims(),
        "comparisons": comparisons(),
        "majority_vectors": vectors(),
        "majority_metrics": metrics,
    }
    frames["gaussian_law"] = worlds.gaussian_law()
    for name, frame in frames.items():
        store.write(frame, name, folder / f"parquet/{name}.parquet", source)
        source["git_commit"] = "fedcba9876543210"
    groups = shown.groups_of(settings(), [*frames, "language_model_metrics"])
    names = [figure.name for group in groups for figure in group.figures]
    for name in names:
        draw(folder / f"figures/{name}.png", 1200 if name == "claims_forest" else 700, 400)
    plan = {"settings": settings(), "options": OPTIONS, "tables": [*frames], "figures": names}
    inputs = {name: folder / f"parquet/{name}.parquet" for name in frames}
    inputs["figures"] = [folder / f"figures/{name}.png" for name in names]
    report.write(plan, inputs, *(folder / name for name in PAGES))
    return World(folder, plan, inputs, (folder / "report.html").read_text(encoding="utf-8"))

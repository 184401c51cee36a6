"""report.html: one self-contained page of verdicts, their evidence and its provenance, from a run's files alone."""

import base64
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from layernorm_roles import store
from layernorm_roles.evidence import style
from layernorm_roles.evidence.claims import CLAIMS, Verdict
from layernorm_roles.evidence.claims.projection import geometry_of_runs
from layernorm_roles.evidence.claims.rules import FLAT
from layernorm_roles.evidence.durations import durations
from layernorm_roles.evidence.majority import LIMIT, random_angle

KEPT = "published"
TITLE = "What LayerNorm does for attention"
PAGE = Path(__file__).parent / "page"
VIEW_EXPERIMENT, KINDS = "d3", {"key": "keys", "query": "queries"}

PARTS = {
    "projection": (
        "Projection",
        "The majority experiment: which of 20 tokens is the most frequent of a sequence of 50? One attention "
        "layer of dimension 8, with the norm before attention varied. “Without projection” is tested twice: as the "
        "released code computes it, which also makes the attention input 8 times smaller, and as the text defines "
        "it.",
    ),
    "scaling": (
        "Scaling",
        "A key is unselectable if no query gives it the highest score: it lies in the convex hull of the others. "
        "Every such verdict carries a certificate. Random keys first, then language models trained with and without "
        "the scaling, each beside its untrained self.",
    ),
    "documents": (
        "Other documents",
        "An essay on the geometry of LayerNorm, a question about the output projection W_O, and lecture notes on "
        "transformers: one claim for each experiment.",
    ),
}
"""name of a part: its title and introduction"""


TABLE_TITLES = {
    "convergence": "Steps to each test loss",
    **{f"table_{i}": f"Table {i}" for i in (1, 2, 3, 4)},
    "statements": "All statements of the documents, and what was found",
    "worked_numbers": "The worked numbers, recomputed",
}
LONG = 12
"""Tables of more rows are folded."""


def number(value: float) -> str:
    """Three significant digits, as a reader writes them; empty for NaN.

    >>> number(1234.5), number(-0.0456), number(3.2e-16), number(float("inf")), number(1.0)
    ('1,230', '−0.0456', '3.2 × 10⁻¹⁶', '∞', '1.00')
    """
    if pd.isna(value):
        return ""
    sign = "−" if value < 0 else ""
    size = abs(value)
    if np.isinf(size):
        return sign + "∞"
    if size == 0:
        return "0"
    if 1e-3 <= size < 1e6:
        return sign + (f"{float(f'{size:.3g}'):,.0f}" if size >= 99.95 else f"{size:#.3g}")
    return sign + _power_of_ten(*f"{size:.1e}".split("e"))


def _power_of_ten(digits: str, power: str) -> str:
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits} × 10{raised}"


def typeset(text: str) -> str:
    """Minus signs, powers of ten, apostrophes, and no line break before a per cent sign.

    >>> typeset("LayerNorm's share is -2.5 % [-3e-05, n - 1]")
    'LayerNorm’s share is −2.5\\xa0% [−3 × 10⁻⁵, n − 1]'
    """
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]\d+)", lambda found: _power_of_ten(*found.groups()), text)
    text = text.replace("'", "’").replace(" %", "\u00a0%").replace(" - ", " − ")
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def mathematics(text: str) -> Markup:
    """Escaped, with subscripts set as such: W_O, d_k."""
    return Markup(re.sub(r"\b([Wd])_(\w)\b", r"<i>\1</i><sub>\2</sub>", str(escape(text))))


def measured(row: pd.Series, unit: str) -> tuple[str, str]:
    """The number with its unit, and its interval; empty where there is none."""
    value = number(row.measured) + typeset(unit) if pd.notna(row.measured) else ""
    known = pd.notna(row.ci_low) and pd.notna(row.ci_high)
    return value, f"[{number(row.ci_low)}, {number(row.ci_high)}]" if known else ""


def write(run: Path, out: str | Path, captions: Mapping[str, str], options: str = "", name: str = "") -> None:
    """Write the page of the run in the folder `run` to `out`.

    `captions` are those of figures, by name; `options` is what a snakemake command needs beside --cores to mean
    this run; `name` is the run's, if not its folder's. The same files give the same bytes. Figures and tables that
    the run lacks are left out.
    """
    claims = store.read(run / "parquet/claims.parquet", "claims").set_index("claim")
    source = {path.stem: store.about(path) for path in sorted((run / "parquet").glob("*.parquet"))}
    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["math"] = mathematics
    command = f"snakemake --cores all{options}"
    seen: set[str] = set()
    variants = _variants(run / "parquet/majority_vectors.parquet")
    html = environment.get_template("report.html.j2").render(
        title=TITLE,
        run=name or run.name,
        command=command,
        device=_common(source, "device"),
        commit=_common(source, "git_commit")[:10],
        css=Markup((PAGE / "report.css").read_text()),
        js=Markup((PAGE / "report.js").read_text()),
        variants=variants,
        vectors=_script_json({"limit": LIMIT, "variants": variants}),
        tally=[(str(v), int((claims.verdict == v).sum())) for v in Verdict],
        parts=[
            {
                "name": name,
                "title": title,
                "about": about,
                "claims": list(_rows(name, claims, run, captions, command, seen)),
                "shown": list(_shown(["statements"] if name == "documents" else [], run)),
            }
            for name, (title, about) in PARTS.items()
        ],
        provenance=_provenance(source),
        durations=_durations_table(time_taken(run)),
        configs=[{"name": n, "text": _pretty(about.get("config", ""))} for n, about in source.items()],
    )
    with store.whole(out) as partial:
        partial.write_text(html)


def _rows(part, claims: pd.DataFrame, run: Path, captions, command: str, seen: set[str]) -> Iterator[dict]:
    for claim in (c for c in CLAIMS if c.part == part and c.name in claims.index):
        row = claims.loc[claim.name]
        value, interval = measured(row, claim.unit)
        runs = "matrices" if claim.target == "random_keys" else "seeds"
        yield {
            "name": claim.name,
            "again": claim.name.endswith("_uniform"),
            "verdict": row.verdict,
            **{key: typeset(row[key]) for key in ("statement", "source", "statistic", "control", "reason")},
            "paper_value": "" if pd.isna(row.paper_value) else typeset(row.paper_value),
            "measured": value,
            "interval": interval,
            "n_seeds": int(row.n_seeds),
            "runs": f"{row.n_seeds:,} {runs}" if row.n_seeds > 1 else "nothing is random",
            "rule": typeset(claim.rule),
            "figures": list(_figures(claim.figures, run, captions, seen)),
            "shown": list(_shown(claim.shown, run)),
            "command": f"{command} {claim.target}",
        }


def _figures(names, run: Path, captions: Mapping[str, str], seen: set[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        path = run / f"figures/{name}.png"
        if not path.exists():
            continue
        raw = path.read_bytes()
        width, height = struct.unpack(">II", raw[16:24])
        # A figure of several claims is there once.
        data = "" if name in seen else f"data:image/png;base64,{base64.b64encode(raw).decode()}"
        seen.add(name)
        # Shown at the size it was drawn for: 220 pixels an inch on paper, 96 on a screen, a little larger.
        scale = 96 / 220 * 1.2
        yield {
            "name": name,
            "data": data,
            "caption": captions.get(name, name),
            "width": round(width * scale),
            "height": round(height * scale),
            "wide": width * scale > 500,
        }


def _shown(names: Iterable[str], run: Path) -> Iterator[dict[str, Any]]:
    for name in names:
        if parts := list(parse_markdown(run / f"tables/{name}.md")):
            yield {
                "title": TABLE_TITLES[name],
                "parts": parts,
                "long": sum(len(p["rows"]) for p in parts) > LONG,
            }


def parse_markdown(path: Path) -> Iterator[dict[str, Any]]:
    """The tables and paragraphs of a file that `tables.save` wrote; nothing if there is no such file.

    {"head": ..., "right": ..., "rows": ...} for a table, {"head": [], "text": ...} for a paragraph.
    """
    if not path.exists():
        return
    for block in path.read_text().strip().split("\n\n"):
        lines = block.split("\n")
        if not block.startswith("|"):
            yield {"head": [], "rows": [], "text": " ".join(lines)}
            continue
        head, rule, *rows = (
            [cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines
        )
        right = [cell.endswith(":") for cell in rule]
        yield {"head": head, "right": right, "rows": [[cell.strip("`") for cell in row] for row in rows]}


def _variants(path: Path) -> list[dict[str, Any]]:
    """Keys and queries of the three-dimensional experiment, for the turning view; empty without one."""
    if not path.exists():
        return []
    vectors = store.read(path, "majority_vectors")
    vectors = vectors[vectors.experiment == VIEW_EXPERIMENT]
    if vectors.empty or len(vectors.vector.iloc[0]) != 3:
        return []
    colours, shapes = style.palette(vectors.variant), geometry_of_runs(vectors)
    return [
        {
            "name": variant,
            "label": style.label(variant),
            "colour": colours[variant],
            "text": _told(variant, shapes[shapes.variant == variant]),
            "runs": [
                {"seed": int(seed), **{KINDS[kind]: _rounded(part) for kind, part in run.groupby("kind")}}
                for seed, run in vectors[vectors.variant == variant].groupby("seed")
            ],
        }
        for variant in style.order(vectors.variant)
    ]


def _rounded(vectors: pd.DataFrame) -> list[list[float]]:
    return np.stack(vectors.sort_values("token").vector.to_numpy()).round(3).tolist()


def _told(variant: str, shapes: pd.DataFrame) -> str:
    flat = (
        "all keys lie on one plane through the origin"
        if shapes.flatness.max() <= FLAT
        else f"the keys do not lie on a plane (smallest singular value {shapes.flatness.mean():.2f} of the largest)"
    )
    angle = shapes.angle
    return (
        f"{style.label(variant)}, {len(shapes)} runs: {flat}; the queries are {angle.mean():.0f}° from the normal of "
        f"the keys’ best plane on average ({angle.min():.0f}° to {angle.max():.0f}° over runs; a random direction: "
        f"{random_angle(3):.0f}°)."
    )


def _script_json(value: Any) -> Markup:
    """JSON that may stand inside a script element, whatever names it holds."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _common(source: Mapping[str, Mapping[str, str]], key: str) -> str:
    return ", ".join(sorted({about[key] for about in source.values() if about.get(key)}))


def _pretty(config: str) -> str:
    try:
        return json.dumps(json.loads(config), indent=2, ensure_ascii=False)
    except ValueError:
        return config


def _provenance(source: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    rows = [
        [
            f"{name}.parquet",
            about.get("version", ""),
            about.get("git_commit", "")[:10],
            about.get("torch", ""),
            about.get("python", ""),
            about.get("device", ""),
            about.get("config_sha256", "")[:10],
        ]
        for name, about in source.items()
    ]
    head = ["table", "version", "commit", "torch", "Python", "device", "settings (SHA-256)"]
    return {"head": head, "right": [False] * len(head), "rows": rows}


def time_taken(run: Path) -> pd.DataFrame:
    """Table of `durations`: of a run that is here from its jobs' benchmark files, of the kept one as it was."""
    kept = run / "tables/durations.csv"
    if run.name != KEPT and any((run / "benchmarks").rglob("*.tsv")):
        return durations(run / "benchmarks")
    return pd.read_csv(kept) if kept.exists() else pd.DataFrame()


def _durations_table(found: pd.DataFrame) -> dict[str, Any] | None:
    if found.empty:
        return None
    head = ["rule", "jobs", "time", "memory (MB)"]
    rows = [
        [r.rule, f"{r.jobs:,}", _time(r.wall_minutes), number(r.largest_memory_mb)]
        for r in found.itertuples()
    ]
    rows.append(["all", f"{found.jobs.sum():,}", _time(found.wall_minutes.sum()), ""])
    return {"head": head, "right": [False, *[True] * 3], "rows": rows}


def _time(minutes: float) -> str:
    if minutes < 2:
        return f"{60 * minutes:.1f} s"
    whole = round(minutes)
    return f"{whole} min" if whole < 120 else f"{whole // 60} h {whole % 60:02d} min"

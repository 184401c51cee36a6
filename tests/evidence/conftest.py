import struct
import zlib
from pathlib import Path

import pytest
import worlds

from layernorm_roles import store
from layernorm_roles.evidence import claims, report

HOSTILE = "<script>alert('1')</script>"


def png(width: int, height: int) -> bytes:
    """A white picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xff" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A run's folder with a variant of hostile name, and its report."""
    folder = tmp_path_factory.mktemp("results") / "tiny"
    about = store.provenance({"name": HOSTILE, "note": "</pre>&amp;"}, "cpu", HOSTILE)
    shapes = {"layernorm": True, "scale": False, HOSTILE: False}
    tables = {
        "majority_metrics": worlds.metrics({"layernorm": 1.0, "scale_released": 3.0, "scale": 1.0}, seeds=3),
        "majority_vectors": worlds.vectors(shapes, shapes, seeds=3),
        "random_keys": worlds.random_keys({"none": (1.0, 0.0), "layernorm": (0.0, 0.0)}),
        "fusion": worlds.fusion({"plain": 0.0, "residual": 0.5, "norm": 0.002, "residual_norm": 0.5}),
    }
    for name, frame in tables.items():
        store.write(frame, name, folder / f"parquet/{name}.parquet", about)
    judged = claims.judge(tables)
    judged.loc[judged.claim == "faster", "reason"] += f" {HOSTILE} & \"quoted\" 'too'"
    store.write(judged, "claims", folder / "parquet/claims.parquet", about)

    for claim in claims.CLAIMS:
        for name in claim.figures:
            (folder / "figures").mkdir(exist_ok=True)
            (folder / f"figures/{name}.png").write_bytes(png(700, 400))
    (folder / "tables").mkdir()
    (folder / "tables/convergence.md").write_text(
        f"| variant | steps |\n| --- | ---: |\n| {HOSTILE} | 1 |\n\nNote <b>.\n"
    )
    for rule in ("claims", "majority_train/d8/layernorm/seed_0"):
        benchmark = folder / f"benchmarks/{rule}.tsv"
        benchmark.parent.mkdir(parents=True, exist_ok=True)
        benchmark.write_text("s\th:m:s\tmax_rss\tcpu_time\n61.5\t0:01:01\t200.5\t30\n")
    report.write(folder, folder / "report.html", {"figure_2a": f"Loss {HOSTILE}"})
    return folder


@pytest.fixture(scope="session")
def page(run) -> str:
    return (run / "report.html").read_text()

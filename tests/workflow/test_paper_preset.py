"""The paper's preset, scaled down by numbers, on small local datasets with the hub's layouts, in tens of minutes."""

import local_hub
import pytest


@pytest.mark.long
def test_it_comes_to_its_report(checkout, tmp_path, monkeypatch):
    made = checkout(local_hub.paper_preset(local_hub.make(tmp_path / "hub")) | {"name": "paper_small"})
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made.run("all")
    results = made.folder / "results/paper_small"
    assert (results / "report.html").stat().st_size > 100_000
    assert len(list((results / "data/downloads").glob("*.parquet"))) == 5

"""The whole preset of the paper, scaled down by numbers, on small local datasets with the hub's layouts, to its report.

It takes tens of minutes: pytest -m long tests/workflow/test_paper_preset.py
"""

import local_hub
import pytest

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def ran(checkout, tmp_path_factory):
    datasets = local_hub.make(tmp_path_factory.mktemp("hub"))
    copy = checkout(local_hub.paper_preset(datasets) | {"name": "paper_small"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        copy.run("all")
    return copy


def test_it_comes_to_its_report(ran):
    results = ran.folder / "results/paper_small"
    assert (results / "report.html").stat().st_size > 100_000
    assert len(list((results / "data/downloads").glob("*.parquet"))) == 5

"""What a plan takes from the configuration: the widest experiment, watched files, figures of a kept reproduction."""

import json

import pytest
from default_settings import ROOT

from layernorm_roles import files
from layernorm_roles.planning import KeptReproduction, Plan, configured


def plan(overlay):
    return Plan(configured(ROOT / "config.yaml", overlay))


@pytest.mark.parametrize("only", [["d3", "d8"], ["d8", "d3"]])
def test_scores_are_those_of_the_widest_experiment(only):
    assert plan({"majority": {"only": only}}).widest_experiment() == "d8"


def test_files_of_contexts_with_a_source_of_their_own_are_watched(tmp_path):
    for name in ("long", "sentences"):
        (tmp_path / f"{name}.txt").write_text(name)
    sources = {
        name: {"source": {"kind": "files", "paths": [str(tmp_path / f"{name}.txt")]}}
        for name in ("long", "sentences")
    }
    watched = plan({"text": {"words": sources}}).corpus_files("words")
    assert watched == [str(tmp_path / "long.txt"), str(tmp_path / "sentences.txt")]


def kept(folder, tables):
    """A kept reproduction in `folder` with these Parquet tables."""
    files.write_text(folder / "settings.json", json.dumps(plan({}).plain))
    (folder / "parquet").mkdir()
    for name in tables:
        (folder / f"parquet/{name}.parquet").touch()
    return KeptReproduction(str(folder))


@pytest.mark.parametrize("there", [["gaussian_law"], ["key_selectability"], ["random_keys", "gaussian_law"]])
def test_a_kept_reproduction_has_the_figures_whose_tables_are_all_there(tmp_path, there):
    figures = kept(tmp_path, there).figures()
    assert "claims_forest" in figures
    assert set().union(*(figure.tables for figure in figures.values())) == {*there, "claims"}


def test_a_damaged_file_of_settings_is_named(tmp_path):
    reproduction = kept(tmp_path, [])
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match=r"settings\.json: damaged"):
        reproduction.figures()

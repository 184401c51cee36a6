"""What an experiment or model must have for a figure to be made of it."""

import pytest

from layernorm_roles import shown

D3 = {"d_model": [3], "learning_rate": [0.1], "steps": 5, "architecture": "gpt"}
D3 |= {"seeds": {"layernorm": 1, "scale": 0}}
BOTH = {"seeds": {"layernorm": 2, "none": 1}}


@pytest.mark.parametrize(
    ("needs", "changes", "met"),
    [
        ({}, {}, True),
        ({"name": "d3"}, {}, True),
        ({"name": "d3"}, {"seeds": {"layernorm": 0}}, False),
        ({"name": "d8"}, {}, False),
        ({"not": ["d8"]}, {}, True),
        ({"not": ["d3", "d8"]}, {}, False),
        ({"d_model": [3]}, {}, True),
        ({"d_model": [3]}, {"d_model": [3, 8]}, False),
        ({"no_architecture": "bert"}, {}, True),
        ({"no_architecture": "gpt"}, {}, False),
        ({"single": True}, {}, True),
        *(({"single": True}, {key: [1, 2]}, False) for key in ("d_model", "learning_rate", "steps")),
        ({"several": "d_model"}, {}, False),
        ({"several": "d_model"}, {"d_model": [3, 8]}, True),
        ({"any_of": ["scale", "layernorm"]}, {}, True),
        ({"any_of": ["scale"]}, {}, False),
        ({"all_of": ["layernorm"]}, {}, True),
        ({"all_of": ["scale", "layernorm"]}, {}, False),
        ({"more_than": "layernorm"}, {}, False),
        ({"more_than": "layernorm"}, BOTH, True),
        ({"more_than": "none"}, {}, True),
        ({"name": "d3", "several": "d_model"}, {}, False),
        ({"norms": ["none"]}, {"norms": ["none", "scale"]}, True),
        ({"norms": ["none"]}, {"norms": ["scale"]}, False),
    ],
)
def test_a_figure_is_made_if_one_experiment_meets_all_that_it_needs(needs, changes, met, monkeypatch):
    """Beside the one that is asked there is another, of which one alone of two needs holds."""
    other = {"other": D3 | BOTH | {"d_model": [3, 4]}} if len(needs) == 2 else {}
    section = changes if "norms" in needs else {"d3": D3 | changes, **other}
    figure = shown.Figure("figure", "majority", "draw", ["majority_metrics"], "", needs=needs)
    table = shown.Table("table", "majority", "title", ["majority_vectors", "claims"])
    monkeypatch.setattr(shown, "GROUPS", {"majority": shown.Group("majority", "title", [figure], [table])})
    files = {"figures/figure.png", "figures/figure.pdf"} if met else set()
    (group,) = shown.groups_of({"majority": section}, ["majority_metrics", "majority_vectors"])
    assert {*group.files} == files | {"tables/table.csv", "tables/table.md"}
    assert group.inputs == ["claims", *(["majority_metrics"] if met else []), "majority_vectors"]
    found = shown.groups_of({"majority": section}, ["majority_metrics"])
    assert [{*group.files} for group in found] == ([files] if met else [])

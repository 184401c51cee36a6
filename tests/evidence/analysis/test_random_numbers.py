"""Numbers of the random world, computed again by plain code, from tables whose rows are in any order."""

import pandas as pd
import pytest
from plain import interval
from pytest import approx
from random_world import TABLES as RANDOM
from recomputed_tables import RECOMPUTED, agree

from layernorm_roles import shown
from layernorm_roles.evidence.analysis import heads, language_model
from layernorm_roles.evidence.tables import readable

NO_ANALYSIS = {"claims", "scoreboard"}


class Shuffled(dict):
    """The tables of the random world with their rows in another order."""

    def __missing__(self, name: str) -> pd.DataFrame:
        self[name] = RANDOM[name].sample(frac=1, random_state=0, ignore_index=True)
        return self[name]


TABLES = Shuffled()


@pytest.mark.parametrize("name", sorted({*shown.TABLES} - NO_ANALYSIS))
def test_numbers_of_readable_tables(name):
    agree(readable.make(shown.TABLES[name], TABLES).frame, RECOMPUTED[name](RANDOM))


def test_rows_that_matter_most_come_first():
    tokens = language_model.token_shares(TABLES["sentence_tokens"])
    rows = [*zip(-tokens.final_percent, -tokens.occurrences, tokens.token, strict=True)]
    assert rows == sorted(rows)


def test_shares_of_keys_in_heads_by_width():
    numbers = 905 * (1 + (TABLES["key_selectability"].model == "wide"))
    table = TABLES["key_selectability"].assign(n_keys=numbers)
    keys = table.query("variant == 'layernorm' and texts == 'long' and site == 'head'")
    places = keys.groupby(place := ["model", "causal", "checkpoint", "layer"])
    found = heads.by_width(table).set_index(place)
    assert len(found) == places.ngroups
    for here, part in places:
        percent = (100 * part.n_unselectable / part.n_keys).groupby(part.seed).mean()
        expected = [part.dimensions.iloc[0], part.n_keys.iloc[0], *interval(percent), len(percent)]
        assert found.loc[here].tolist() == approx(expected)


def test_shares_of_keys_that_reach_a_threshold():
    pairs = RANDOM["language_model_pairs"]
    own = pairs[pairs.queries == "any"].assign(queries="own", upper=pairs.received_max)
    places = pd.concat([pairs, own]).groupby(place := ["model", "variant", "checkpoint", "queries"])
    found = heads.shares_reached(TABLES["language_model_ceilings"]).set_index([*place, "threshold"])
    assert len(found) == 3 * places.ngroups and found.index[-1][3] == "own" != found.index[0][3]
    for here, part in places:
        for threshold in (0.5, 0.1, 0.01):
            percent = (100 * (part.upper >= threshold)).groupby(part.seed).mean()
            expected = [part.dimensions.iloc[0], 30, *interval(percent), len(percent)]
            assert found.loc[(*here, threshold)].tolist() == approx(expected)

"""Every key of config.yaml, spoilt in every way its type knows, is refused with its name."""

import copy
import datetime
import json
import random
import re
import subprocess
import sys
import textwrap

import jsonschema
import pytest
import yaml
from default_settings import DEFAULT, ROOT
from schema_walk import keys

from layernorm_roles import norms
from layernorm_roles.reproduction import merged
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.json_schema import NAMED, for_editors
from layernorm_roles.settings.loading import load, resolve
from layernorm_roles.settings.majority import MajorityData
from layernorm_roles.settings.text import Source

WRITTEN = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
ONE_OF_EACH = WRITTEN | {"majority": {"d8": WRITTEN["majority"]["d8"]}}
ONE_OF_EACH["language_model"] = {name: WRITTEN["language_model"][name] for name in ("gpt", "bert")}
KEYS = [*keys(resolve(ONE_OF_EACH))]


def spoilt(value, schema):
    """Values that must not stand in the place of `value`: other types, and what lies beyond the bounds."""
    yield object  # a type that no configuration has
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if not ("null" in kinds or schema.keys() & {"anyOf", "oneOf"} or None in schema.get("enum", [])):
        yield None
    if options := schema.get("anyOf", []):
        if not any(option.keys() & {"minLength", "pattern"} for option in options):
            yield "none of these"
        numbers = [option for option in options if option.get("type") in ("integer", "number", "array")]
        for option in numbers:
            yield from (wrong for wrong in spoilt(value, option) if wrong is not None)
        yield from [] if numbers else [7]
    if kinds & {"integer", "number"}:
        yield from ("many", float("nan"), *([1.5] if "number" not in kinds else []))
        beyond = {"minimum": -1, "maximum": 1, "exclusiveMinimum": 0, "exclusiveMaximum": 0}
        yield from (schema[bound] + more for bound, more in beyond.items() if bound in schema)
    if "string" in kinds:
        yield 7
        if "pattern" in schema:
            yield from ("../../etc/passwd", "<script>alert(1)</script>", "a; rm -rf ~", "", "a b", "x\n")
    if "enum" in schema:
        yield "none of these"
    if "array" in kinds:
        yield from ("first", *([[]] if schema.get("minItems") else []))
    if "object" in kinds:
        yield [1]
        yield {**(value or {}), "no-such key": 1} if isinstance(value, dict) else 3


def replaced(path, value):
    config = here = copy.deepcopy(DEFAULT)
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return config


def test_the_shipped_and_shown_configurations_are_accepted_and_fit_the_schema_for_editors():
    """If the last line fails: python -m layernorm_roles.settings > workflow/schemas/config.schema.json"""
    for model in load(WRITTEN).language_model.values():  # of seeds and the like no training depends
        fields = {*type(model).__mro__[2].model_fields}
        assert fields - {"learning_rate", "steps", "query_key_rate"} == {*model.of_training()}
    jsonschema.validate(WRITTEN, schema := for_editors())
    for preset in (ROOT / "workflow/presets").glob("*.yaml"):
        overlay = yaml.safe_load(preset.read_text(encoding="utf-8"))
        load(merged(WRITTEN, overlay))
        jsonschema.validate(overlay, schema)
    for page, number in (("README.md", 2), ("docs/guide.md", 3)):
        text = (ROOT / page).read_text(encoding="utf-8")
        shown = re.findall(r"^    # \w+\.yaml\n(?:    .*\n)+", text, re.MULTILINE)
        assert len(shown) == number
        for block in shown:
            overlay = yaml.safe_load(textwrap.dedent(block))
            load(merged(WRITTEN, overlay))
            jsonschema.validate(overlay, schema)
    printed = subprocess.check_output([sys.executable, "-m", "layernorm_roles.settings"], text=True)
    assert not re.search(r'"(ge|le|gt|lt)":', printed)
    kept = (ROOT / "workflow/schemas/config.schema.json").read_text(encoding="utf-8")
    assert json.loads(kept) == schema == json.loads(printed)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_spoilt_value_is_refused_with_the_name_of_its_key(key):
    may_be_null = key.place[-2:-1] == ("seeds",) or (len(key.place) == 2 and key.place[0] in NAMED)
    tried = 0
    for value in spoilt(key.value, key.schema):
        if value is None and may_be_null:
            continue
        with pytest.raises(ValueError, match="not usable") as error:
            load(replaced(key.place, value))
        assert str(key) in str(error.value), (value, str(error.value))
        tried += 1
    assert tried >= 2


REFUSED = """
majority: {d8: {majority_gap: 49}} -> majority.d8.majority_gap = 49: expected at most sequence_length - 2 = 48
majority: {d8: {majority_gap: 48}} -> for each of the 1 admissible partitions
majority: {d8: {steps: 200000}} -> majority.d8.steps = 200000: expected at most schedule_steps
majority: {only: [d8], d8: {split: partitions, sequences: 100, labellings: 100}} -> test_share = 0.2: expected
majority: {d8: {test_share: 0.999999}} -> majority.d8.test_share = 0.999999: expected a share that puts
majority: {d8: {runs_per_jobs: 4}} -> majority.d8.runs_per_jobs = 4: expected a known key: runs_per_job
steps: 3 -> steps = 3: expected a known key: name, device
name: published -> name = 'published': expected another name
majority: {only: [x], x: {steps: 3}} -> majority.x.sampling: Field required
majority: {only: [d9]} -> majority.only = ['d9']: expected a list of experiments, some of d8
majority: {d8: {like: d3}} -> majority.d3.like = 'd8': expected another experiment
majority: {d8: null} -> majority.d3.like = 'd8': expected another experiment
majority: {only: [d3_uniform]} -> majority: expected seeds for at least one experiment
majority: {only: [x], x: {like: d8, seeds: {scale: []}}} -> majority: expected seeds for at least one experiment
majority: {d8: {seeds: {layernorm_qk: 1}}} -> majority.d8.seeds = 'layernorm_qk': expected one of layernorm
majority: {d8: {seeds: {scale: [3-5, 4]}}} -> majority.d8.seeds.scale = [3, 4, 5, 4]: expected different values
majority: {d8: {seeds: {scale: [9-7]}}} -> expected first-last, at most 1,000 seeds in ascending order
majority: {d8: {seeds: {scale: [0-1000]}}} -> majority.d8.seeds.scale = ['0-1000']: Input should
majority: {d8: {seeds: {scale: [0-999, 2000]}}} -> at most 1000 items
majority: {d8: {seeds: {scale: [1, a-b]}}} -> 'a-b': Input should be a valid integer
majority: {d8: {seeds: {scale: [-1]}}} -> majority.d8.seeds.scale.0 = -1: Input should be greater than or equal to 0
norms: {mine: 'no:Norm'}, majority: {d8: {seeds: {mine: 1}}} -> norms.mine: norm 'no:Norm' cannot be imported
norms: {no_attention: 'a:B'} -> norms.no_attention = 'a:B': expected another name: this one is built in
norms: {big: {like: no_attention, factor: 2}} -> norms.big.like = 'no_attention': Input should be 'layernorm', 'layern
norms: {v: {like: scale, factor: 2, part: values}}, random_keys: {norms: [v]} -> random_keys.norms = 'v': expected
random_keys: {keys: [9, 3]} -> random_keys.keys = [9, 3]: expected [first, last]
language_model: {gpt: {architecture: lstm}} -> language_model.gpt.architecture = 'lstm': Input tag 'lstm'
language_model: {gpt: {heads: 3}} -> language_model.gpt.heads = 3: expected a divisor of d_model = 8
language_model: {gpt: {context_length: 64}} -> text.words.long.longest = 1024: expected at most 64
language_model: {bert: {context_length: 128}} -> text.words.sentences.longest = 128: expected at most 127
language_model: {gpt: {steps: 1201, schedule_steps: 1200}} -> gpt.steps = 1201: expected at most schedule_steps = 1200
language_model: {gpt: {steps: [9, 20], schedule_steps: 19}} -> language_model.gpt.steps = 20: expected at most schedule
language_model: {gpt: {query_key_rate: [1, 0]}} -> gpt.query_key_rate.1 = 0: Input should be greater than 0
language_model: {gpt: {query_key_rate: [1, 4]}} -> gpt.query_key_rate = [1.0, 4.0]: expected 1, since no_attention has
language_model: {bert: {query_key_rate: [1, 4]}} -> bert.query_key_rate = [1, 4]: expected a known key
language_model: {bert: {seeds: {scale: 1}}} -> language_model.bert.seeds = 'scale': Input should be 'none'
language_model: {bert: {seeds: {none: false, layernorm: 0, no_attention: 0}}} -> bert.seeds.none = False: Input should
language_model: {bert: {task: labelled}} -> language_model.bert.training = None: expected a source of kind hub
text: {words: {split: {training: 0.69999}}} -> expected shares that add up to 1
text: {words: {split: {training: 0.9, held_out: 0}, long: {source: {kind: wikipedia_sample}}}} -> words.split.held_out
text: {words: {long: {shortest: 1025}}} -> text.words.long.shortest = 1025: expected at most longest = 1024
text: {words: {corpus: {kind: hub, dataset: d, column: c}}} -> text.words.corpus.split = None: expected a value
text: {words: {corpus: {dataset: d}}} -> text.words.corpus.dataset = 'd': expected null beside kind: wikipedia_sample
text: {words: {corpus: {paths: ['*.txt']}}} -> text.words.corpus.paths = ['*.txt']: expected null beside kind
statements: {placement: {text: letters}} -> statements.placement.text = 'letters': expected one of words, bytes
statements: {placement: {depths: [7]}} -> statements.placement.depths = [7]: expected a list with a depth
statements: {placement: {heads: 3}} -> statements.placement.heads = 3: expected a divisor of d_model = 32
statements: {batch_dependence: {batch_sizes: [1]}} -> statements.batch_dependence.batch_sizes = [1]
pretrained: {minilm: {text: letters}} -> pretrained.minilm.text = 'letters': expected one of words, bytes
pretrained: {minilm: {hub: a/b}} -> package, path, hub = 'package, hub': expected exactly one of the three
pretrained: {minilm: {package: null, path: a}} -> pretrained.minilm.folder = 'model': expected a package beside it
"""
"""What is laid over config.yaml -> what is said about it."""


HUB = {"kind": "hub", "dataset": "d", "split": "s", "column": "c"}
MORE = [
    (
        {"language_model": {"gpt": {"learning_rate": [0.001 + i / 1e6 for i in range(3000)]}}},
        "at most 100 items",
    )
]
for more, says in (({}, "training = 'hub'"), ({"label_column": "l"}, "validation = None")):
    labelled = {"bert": {"task": "labelled", "training": HUB | more}}
    MORE += [({"language_model": labelled}, f"language_model.bert.{says}: expected a source")]


@pytest.mark.parametrize(
    ("overlay", "says"), [*(line.split(" -> ") for line in REFUSED.strip().splitlines()), *MORE]
)
def test_values_that_cannot_work_together_are_explained(overlay, says):
    overlay = yaml.safe_load(f"{{{overlay}}}") if isinstance(overlay, str) else overlay
    with pytest.raises(ValueError, match="not usable") as error:
        load(merged(WRITTEN, overlay))
    assert says in str(error.value) and "pydantic" not in str(error.value) and len(str(error.value)) < 3000


def test_seeds_are_a_number_or_a_list_in_which_ranges_are_spelt_out():
    seeds = {"scale": ["5-7", 2**32, 3], "none": ["0-999"], "layernorm": "3", "projection": []}
    rates = {"like": "gpt", "query_key_rate": [1, "1e1"], "schedule_steps": 1200, "seeds": {"scale": 2}}
    found = load(
        merged(
            WRITTEN, {"majority": {"mine": {"like": "d8", "seeds": seeds}}, "language_model": {"g": rates}}
        )
    )
    expected = {"scale": (5, 6, 7, 2**32, 3), "none": (*range(1000),), "layernorm": 3, "projection": ()}
    assert found.majority["mine"].seeds == expected
    assert (
        found.language_model["g"].query_key_rate == (1.0, 10.0)
        and found.language_model["g"].rate_ends == 1200
    )


EDGES = """
majority: {d8: {sequence_length: 7, classes: 7, majority_gap: 5, sequences: 10, labellings: 11, test_share: 0.095}}
majority: {d8: {sequence_length: 7, classes: 2, majority_gap: 3, sequences: 19, split: partitions, test_share: 0.5}}
majority: {d8: {steps: 500, schedule_steps: 500}}
random_keys: {keys: [5, 5]}
statements: {placement: {depths: [7, 6]}}
text: {words: {long: {shortest: 1024}, split: {training: 0.1, validation: 0.2, held_out: 0.7}}}
"""
"""What is laid over config.yaml and lies at the last value that is allowed."""


@pytest.mark.parametrize("overlay", EDGES.strip().splitlines())
def test_the_last_value_that_is_allowed_is_accepted(overlay):
    overlay = yaml.safe_load(f"{{{overlay}}}")
    load(merged(WRITTEN, overlay | {"majority": {"only": ["d8"], **overlay.get("majority", {})}}))


def test_norms_are_tried_in_the_shapes_of_all_that_uses_them(monkeypatch):
    overlay = {"majority": {"only": ["d8"], "d8": {"d_model": [3, 5], "seeds": {"scale": 2}}}}
    overlay |= {"random_keys": {"keys": [3, 9], "dimensions": [4, 5], "matrices": 7}}
    uses = [*load(merged(WRITTEN, overlay)).variants_used()]
    found = {(use.key, use.variant): use.shapes for use in uses}
    assert found["majority.d8.seeds", "scale"] == ((20, 3), (20, 5))
    assert found["random_keys.norms", "none"] == ((7, 9, 4), (7, 9, 5))
    assert found["language_model.gpt_bytes.seeds", "projection"] == ((4, 128, 64),)
    tried, own = [], {"norms": {"mine": "a:B"}, "majority": {"d8": {"seeds": {"mine": 1}}}}
    monkeypatch.setattr(norms, "probe", lambda *tried_with: tried.append(tried_with))
    load(merged(WRITTEN, merged(overlay, own)))
    assert tried == [("a:B", (20, 3)), ("a:B", (20, 5))]
    own = {"norms": {"mine": "no:Norm"}, "majority": {"d8": {"seeds": {"mine": 1}}}}
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"usable:\n  norms.mine: norm 'no:Norm' cannot [^\n]*$"):
        load(merged(WRITTEN, merged(overlay, own)))


def test_sources_that_differ_in_what_is_downloaded_have_files_of_their_own():
    source = {"kind": "hub", "dataset": "a/b", "config": "c", "split": "s", "column": "t"}
    changes = ({key: "a_b"} for key in ("dataset", "config", "split", "column", "label_column", "joined_by"))
    made = [Source(**source | change).file_name for change in ({}, *changes, {"limit": 3}, {"licence": "l"})]
    assert len(set(made)) == 8 and made[0] == made[-1] and re.fullmatch(r"a_b_c_s_\w{8}\.parquet", made[0])


JUNK = [None, -1, 2.5, float("nan"), "x", [], {}, {"a": 1}, {1: 2}, {None: 3}, datetime.date(2026, 1, 1)]
JUNK += [{"like": "d8"}, {"only": ["x"]}, {"architecture": [1]}, {(1, 2): 3}, 10**400, "seeds_per_job"]


def test_whatever_stands_in_a_configuration_is_accepted_or_refused_in_sentences():
    rng, refused = random.Random(5), 0
    for _ in range(150):
        config = copy.deepcopy(DEFAULT)
        for key in rng.sample(KEYS, 3):
            here = config
            for name in key.place[:-1]:
                here = here.get(name) if isinstance(here, dict) else None
            if isinstance(here, dict):
                here[rng.choice([key.place[-1]] * 4 + [3, None, True, (1, 2), "zz"])] = rng.choice(JUNK)
        try:
            load(config)
        except ValueError as error:
            assert "not usable" in str(error), str(error)
            refused += 1
    assert refused > 100


def test_a_fault_that_others_take_over_is_reported_once():
    """Five experiments are like d8, one of them by way of d3; what an experiment says itself is its own fault."""
    overlay = {"majority": {"d8": {"steps": -1}, "rates": {"steps": -2}, "widths": 7}}
    overlay["language_model"] = {"gpt": {"heds": 4}}
    with pytest.raises(ValueError, match="not usable") as error:
        load(merged(WRITTEN, overlay))
    told = [line.split(":")[0].strip() for line in str(error.value).splitlines()[1:]]
    wrong = ["majority.d8.steps = -1", "majority.rates.steps = -2", "majority.widths = 7"]
    assert sorted(told) == ["language_model.gpt.heds = 4", *wrong]


def test_entries_name_only_what_differs_and_only_some_are_kept():
    """A key that holds keys of its own is taken as a whole."""
    long, default = {**DEFAULT["text"]["words"]["long"], "longest": 800}, DEFAULT["majority"]
    d8 = {"like": "d8", "sampling": "uniform", "seeds": {"scale": 2, "none": None}}
    overlay = {"only": ["mine", "d3"], "mine": d8, "d3": {"seeds": {"none": None}}, "d8_uniform": None}
    overlay = {"majority": overlay, "text": {"short": {"like": "words", "long": long}}}
    overlay["language_model"] = {"gpt": {"like": "bert"}}
    found = resolve(merged(WRITTEN, overlay))
    mine = default["d8"] | {"sampling": "uniform", "seeds": {"scale": 2}}
    kept = {name: n for name, n in default["d3"]["seeds"].items() if name != "none"}
    assert len(kept) < len(default["d3"]["seeds"])
    assert found["majority"] == {"mine": mine, "d3": default["d3"] | {"seeds": kept}}
    assert found["text"]["short"] == DEFAULT["text"]["words"] | {"long": long}
    models = DEFAULT["language_model"]["bert"] | WRITTEN["language_model"]["gpt"]
    assert found["language_model"]["gpt"] == models
    assert load(merged(WRITTEN, overlay | {"language_model": {}})).majority["mine"].seeds == {"scale": 2}
    assert [*resolve(merged(WRITTEN, {"majority": {"only": "d8"}}))["majority"]] == ["d8"]


@pytest.mark.parametrize("written", ["1e3", "1_000", "1000.0", "'1.0e+3'"])
def test_numbers_are_read_as_their_writer_meant_them_and_one_of_several_is_a_list(written):
    given = f"{{like: d8, steps: {written}, evaluate_every: {written}, d_model: 6, learning_rate: [1e-3, 1]}}"
    entries = {"mine": yaml.safe_load(given) | {"d_ff": None}, "d8": {"learning_rate": "1e-3"}}
    found = load(merged(WRITTEN, {"majority": entries})).majority
    mine, rates = found["mine"], found["d8"].learning_rate
    assert mine.steps == mine.evaluate_every == 1000 and mine.d_ff is None
    assert mine.d_model == (6,) and mine.learning_rate == (0.001, 1.0) and rates == (0.001,)
    assert [*map(type, (mine.steps, mine.evaluate_every, *mine.learning_rate))] == [int, int, float, float]


def test_a_factor_is_a_norm_of_its_own_wherever_variants_are_named():
    scale = {"like": "scale", "factor": "1e-1", "part": "values"}
    overlay = {"norms": {"big": {"like": "projection", "factor": 35}, "v": scale}}
    overlay |= {"majority": {"d8": {"seeds": {"big": 1, "v": 1}}}, "random_keys": {"norms": ["big"]}}
    settings = load(merged(WRITTEN, overlay))
    for each in (settings, load(json.loads(settings.model_dump_json()))):
        assert each.norm_class("big") == "projection*35.0" and each.norm_class("v") == "scale*0.1@values"
        assert [*each.majority["d8"].seeds][-2:] == ["big", "v"]
    with pytest.raises(ValueError, match="frozen"):
        settings.random_keys.matrices = 3


def test_the_partitions_are_the_fewest_that_give_more_sequences_than_asked_as_in_the_paper():
    for sequences, partitions in ((80_000, 10_001), (79_999, 10_000)):
        assert MajorityData.model_construct(sequences=sequences, labellings=8).partitions == partitions


def test_planning_imports_neither_torch_nor_pandas():
    heavy = {"torch", "pandas", "numpy", "numba", "pyarrow", "matplotlib"}
    program = f"import sys, layernorm_roles.reproduction; print(sorted({heavy} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\nfirst_seed: 1\nfirst_seed: 2\n", "'first_seed' is there twice"),
        ("majority:\n  d8: {steps: 1, batch_size: 2, steps: 3}\n", "line 2, column 33"),
        ("first_seed: [1, 2\nname: x", "no YAML: "),
        ("majority: {[d8, d3]: {}}\n", "no YAML: while constructing a mapping"),
        ("- name: a\n", "expected keys with values"),
        (b"name: \xff\n", "no YAML: 'utf-8' codec"),
        ("x: !!python/name:os.system\n", "no YAML: could not determine a constructor for the tag"),
        ("steps: 0100\n", "0100: expected a number in base 10"),
        ("a: {b: [-017]}\n", "-017: expected a number in base 10 without a leading 0, or quotes"),
        ("name: a\nfirst_seed: 1:30\n", "line 2, column 13"),
        ("share: 1:30.5\n", "1:30.5: expected a number in base 10"),
    ],
)
def test_a_file_that_misleads_is_refused_in_one_line(tmp_path, text, says):
    file = tmp_path / "mine.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError) as error:
        yaml_files.read(file)
    assert says in str(error.value)
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)


def test_equal_keys_in_different_places_and_plain_numbers_are_read(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("a: &some {x: 1, y: 2}\nb: {<<: *some, x: 3}\nd: {a: {x: 1}, b: {x: 1}}\n")
    assert yaml_files.read(file)["b"] == {"x": 3, "y": 2}
    file.write_text("[0, -0, 0x1F, 1_000, 0.05, 01.5, '0100', '1:30']".join(("x: ", "\n")))
    assert yaml_files.read(file)["x"] == [0, 0, 31, 1000, 0.05, 1.5, "0100", "1:30"]
    with pytest.raises(ValueError, match=r"nowhere\.yaml: no YAML: "):
        yaml_files.read(tmp_path / "nowhere.yaml")


HOSTILE = [
    "../../../tmp/hacked",
    "/tmp/hacked",
    "..",
    '"><img src=x onerror=alert(1)>',
    "-rf",
    "$(touch hacked)",
]
HOSTILE += ["a\ntouch hacked", "{wildcards.seed}", "a\0b", "ä", "", "con\u202egnp"]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_a_hostile_name_is_refused_wherever_a_name_is_expected(name):
    """The name of a reproduction is a folder; experiments and variants are folders, HTML and rows of tables."""
    for overlay in (
        {"name": name},
        {"majority": {name: DEFAULT["majority"]["d8"]}},
        {"majority": {"d8": {"seeds": {name: 1}}}},
        {"norms": {name: "examples.dynamic_tanh:DynamicTanh"}},
        {"norms": {"mine": name}},
        {"random_keys": {"norms": [name]}},
        {"language_model": {"gpt": {"seeds": {name: 1}}}},
        {"language_model": {"bert": {"seeds": {name: 1}}}},
    ):
        with pytest.raises(ValueError, match="not usable"):
            load(merged(DEFAULT, overlay))

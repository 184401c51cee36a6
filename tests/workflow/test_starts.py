"""What a job imports before its work begins: each job pays for it, in CPU time that no result needs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "workflow/scripts"
SLOW = {"torch", "torch._dynamo", "sympy", "transformers", "numba", "pandas", "pyarrow", "numpy", "pydantic"}
SLOW |= {
    "tokenizers",
    "matplotlib",
    "seaborn",
    *(f"scipy.{n}" for n in ("special", "sparse", "optimize", "stats")),
}
"""Modules whose import takes longer than 20 ms."""
TABLES = {"numpy", "pandas", "pyarrow"}
EVIDENCE = TABLES | {"scipy.special"}
DRAWING = EVIDENCE | {"matplotlib", "seaborn", "scipy.stats", "scipy.sparse", "scipy.optimize"}
STATEMENT = TABLES | {"torch", "pydantic"}
CERTIFIED = STATEMENT | {"numba", "scipy.special", "scipy.sparse"}
NEEDED = {
    "check_files print_targets write_settings": set(),
    "download_text": {"numpy", "pyarrow", "pydantic"},
    "prepare_text": TABLES | {"pydantic", "tokenizers"},
    "generate_majority_data": TABLES | {"pydantic"},
    "train_majority": STATEMENT | {"numba"},
    "train_language_model": STATEMENT | {"numba", "tokenizers"},
    "measure_language_model measure_pretrained": CERTIFIED | {"tokenizers"},
    "measure_random_keys": CERTIFIED | {"scipy.optimize"},
    "measure_geometry measure_batch_dependence": STATEMENT,
    "train_placement": STATEMENT | {"tokenizers"},
    "measure_fusion measure_score_scale": STATEMENT | {"scipy.special"},
    "collect_table": TABLES,
    "judge_claims update_readme write_durations compare": EVIDENCE,
    "draw write_page publish": DRAWING,
}
"""The slow modules that scripts may import before their call, all of them in one process."""


def test_every_script_is_listed():
    assert {script.stem for script in SCRIPTS.glob("*.py")} == {*" ".join(NEEDED).split()}


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(scripts, marks=pytest.mark.long if "torch" in needs else ())
        for scripts, needs in NEEDED.items()
    ],
)
def test_a_script_imports_what_it_needs_alone(scripts):
    trees = [ast.parse((SCRIPTS / f"{script}.py").read_text(encoding="utf-8")) for script in scripts.split()]
    kinds = ast.Import | ast.ImportFrom
    program = [ast.unparse(node) for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]
    program.append(f"import sys; print(*{SLOW} & {{*sys.modules}})")
    done = subprocess.run([sys.executable, "-c", "\n".join(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {*done.stdout.split()} <= NEEDED[scripts]

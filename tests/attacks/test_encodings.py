"""Every file is read and written in an encoding that the code names, since that of the machine may be ASCII."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = {"read_text", "write_text"}


def opens_without_encoding(path):
    """The lines of a Python file with a call that opens a file as text and names no encoding."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or any(word.arg in ("encoding", None) for word in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        owner = getattr(getattr(node.func, "value", None), "id", None)
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        is_open = name == "open" and owner not in ("Image", "os", "bz2")
        binary = any("b" in text and len(text) < 4 for text in texts)
        if (name in TEXT and owner != "files") or (is_open and not binary):
            yield node.lineno


@pytest.mark.parametrize("folder", ["src", "workflow"])
def test_no_file_is_opened_in_the_encoding_of_the_machine(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert not [*opens_without_encoding(path)], path

"""A model's folder may name code of its own; it is never run, and nobody is asked."""

import json
import re

import pytest

from layernorm_roles.pretrained import contexts, recording
from layernorm_roles.pretrained.source import files_at


@pytest.fixture
def folder(saved, tmp_path):
    """A random BERT whose configuration, model and tokenizer need the folder's code, which would write a file."""
    folder, marker = tmp_path / "model", tmp_path / "marker"
    folder.mkdir()
    for path in saved("bert").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "own.py").write_text(
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        "from transformers import BertConfig, BertModel, BertTokenizerFast\n"
        "class Own(BertConfig):\n    model_type = 'own'\nclass Model(BertModel): pass\n"
        "class Words(BertTokenizerFast): pass\n"
    )
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    words = {"tokenizer_class": "Words", "auto_map": {"AutoTokenizer": ["own.Words", "own.Words"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))
    return folder, marker


def test_code_of_a_folder_is_not_run(folder, monkeypatch):
    folder, marker = folder
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question is asked"))
    files = files_at(folder, "path")
    for load in (recording.load, contexts.tokens_of):
        with pytest.raises(ValueError, match=rf"^{re.escape(str(folder))}/config\.json: auto_map") as refused:
            load(files)
        assert "\n" not in str(refused.value)
        assert not marker.exists()

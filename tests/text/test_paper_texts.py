"""The texts of the paper's preset, from small local copies of the datasets with the hub's layouts."""

import local_hub
import pytest

from layernorm_roles import reproduction
from layernorm_roles.language_model import tasks
from layernorm_roles.text import downloads, tokenizer
from layernorm_roles.text.prepare import prepare
from layernorm_roles.text.prepared import PreparedText


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    preset = local_hub.paper_preset(local_hub.make(tmp_path_factory.mktemp("hub")))
    settings = reproduction.configured(local_hub.ROOT / "config.yaml", preset)
    return reproduction.Reproduction(settings, local_hub.ROOT / "workflow/presets")


@pytest.fixture(scope="module")
def prepared(plan, tmp_path_factory):
    """The folder to which everything was downloaded, and the text of it."""
    folder, out = tmp_path_factory.mktemp("downloads"), tmp_path_factory.mktemp("text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("home")))
        for source in plan.hub_sources.values():
            downloads.download(source, folder / source.file_name)
    prepare(plan.settings.text["words"], out, 0, folder)
    return folder, PreparedText(out)


def test_every_dataset_is_downloaded_once(plan):
    names = [source.file_name for source in plan.hub_sources.values()]
    assert len(names) == len(set(names)) == 5
    assert [source.split for source in plan.labelled_sources("bert")] == ["train", "validation"]


def test_both_tasks_find_their_text(prepared, plan):
    (folder, text), models = prepared, plan.settings.language_model
    bpe = tokenizer.load(text.tokenizer)
    assert bpe.get_vocab_size() == 50257
    (window,) = tasks.build(models["gpt"], text, bpe, 0).batch(0)
    task = tasks.build(models["bert"], text, bpe, 0, folder)
    assert window.shape == (2, 1025) and task.batch(0)[0].shape == (2, 129) and task.classes == 2


def test_too_few_contexts_show_before_the_corpus_is_tokenised(prepared, plan, tmp_path, monkeypatch):
    """The paragraphs alone are too short, as in the preset's first form."""
    (folder, _), words = prepared, plan.settings.text["words"]
    alone = words.model_dump()
    alone["long"]["source"]["joined_by"] = None
    alone = type(words).model_validate(alone)
    downloads.download(alone.long.source, folder / alone.long.source.file_name)
    monkeypatch.setattr("layernorm_roles.text.prepare.part_of", None)  # fails with the corpus' first document
    says = r"long\.contexts = 16: the source \S*squad gives 0 of 768 to 1024 tokens; .* joined_by"
    with pytest.raises(ValueError, match=says):
        prepare(alone, tmp_path / "text", 0, folder)

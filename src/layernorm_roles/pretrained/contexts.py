"""Held-out texts as token ids of a pretrained model's tokenizer, all cut to one length."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles.memory import warn
from layernorm_roles.pretrained.source import ModelFiles, refusal


class Tokens(NamedTuple):
    """The tokenizer of a pretrained model, as two functions: from a text to token ids, and from a token id to text."""

    encode: Callable[[str, int], list[int]]
    """Function of a text and a largest number of tokens; returns token ids, the model's special ones among them."""
    spell: Callable[[int], str]
    """Function of a token id that returns the text of the token."""


def first_of_each_document(contexts: pd.DataFrame, tokenizer: Tokenizer) -> list[str]:
    """The text of the first long context of each held-out document, in ascending order of the column context.

    Only one text of each document is used, so that the texts are independent of each other. Rows of table `contexts`
    are long contexts if column texts is "long". `tokenizer` is the one that made their tokens.
    """
    long = contexts[contexts.texts == "long"].sort_values("context").drop_duplicates("document")
    return [tokenizer.decode(list(map(int, tokens))) for tokens in long.tokens]


def contexts(
    texts: Iterable[str], tokens: Tokens, context_length: int, number: int, name: str
) -> dict[int, list[int]]:
    """The token ids of the first `number` texts with at least `context_length` tokens, cut to this length.

    The keys of the result are indices in `texts`. Special tokens count. Shorter texts are left out, because the share
    of unselectable keys depends on the number of keys. Warns if fewer than `number` texts are long enough, and raises
    ValueError if none is. Messages call the model `name`.
    """
    read = ((place, tokens.encode(text, context_length)) for place, text in enumerate(texts))
    chosen = dict(islice(((place, ids) for place, ids in read if len(ids) == context_length), number))
    if not chosen:
        raise ValueError(
            f"pretrained.{name}.context_length = {context_length}: expected fewer, since no held-out text has so many"
        )
    if len(chosen) < number:
        warn(
            f"pretrained.{name}.contexts = {number}, but only {len(chosen)} of the held-out texts have "
            f"{context_length} tokens: these are read"
        )
    return chosen


def tokens_of(files: ModelFiles) -> Tokens:
    """Load the tokenizer of the pretrained model in `files`. Raises ValueError if that fails.

    It is read from the model's GGUF file or tokenizer_config.json, or else from tokenizer.json.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if files.gguf or (files.folder / "tokenizer_config.json").is_file():
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                files.folder, gguf_file=files.gguf, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:
            raise ValueError(refusal(files.folder, "tokenizer", error)) from error
    else:
        try:
            alone = Tokenizer.from_file(str(files.folder / "tokenizer.json"))
        except Exception as error:
            raise ValueError(
                f"{files.folder}: expected tokenizer_config.json or tokenizer.json ({error})"
            ) from None
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=alone)
    return Tokens(
        lambda text, longest: tokenizer(text, truncation=True, max_length=longest)["input_ids"],
        lambda token: tokenizer.decode([token]),
    )

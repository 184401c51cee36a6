"""The files of a prepared text: their names, and what identifies the text that models are trained on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layernorm_roles import files

TEXT_FILES = {
    "tokenizer": "tokenizer.json",
    "training": "training.npy",
    "validation": "validation.npy",
    "contexts": "contexts.parquet",
    "manifest": "manifest.json",
}
"""Names of the files in the folder of a prepared text, by the keys with which Snakemake's rules refer to the files."""


@dataclass(frozen=True)
class PreparedText:
    """The paths of the files of a prepared text in `folder`, and what identifies the text."""

    folder: Path

    @property
    def tokenizer(self) -> Path:
        """The path of the tokenizer, JSON of the package tokenizers."""
        return self.folder / TEXT_FILES["tokenizer"]

    @property
    def contexts(self) -> Path:
        """The path of the table `contexts`, the held-out texts whose keys are tested."""
        return self.folder / TEXT_FILES["contexts"]

    @property
    def manifest(self) -> Path:
        """The path of the description of the text: sources, licence, split, numbers of documents and tokens."""
        return self.folder / TEXT_FILES["manifest"]

    def tokens(self, part: str) -> Path:
        """The path of the token stream of a part of the corpus, training or validation."""
        return self.folder / TEXT_FILES[part]

    @property
    def seed(self) -> int:
        """The seed of the choice of contexts, and of BERT's validation windows."""
        return read_manifest(self.manifest)["seed"]

    def content_hash(self) -> str:
        """A hash of the tokenizer, both token streams and the seed, from the manifest: another text has another hash.

        Raises ValueError if the manifest is missing or damaged, or if a file beside it is of another text.
        """
        manifest = read_manifest(self.manifest)
        for name, digest in manifest["sha256"].items():
            if (recorded := files.recorded(self.folder / name)) != digest:
                raise files.Unusable.because(
                    self.folder / name,
                    f"a file of another text (SHA-256 {recorded}, expected {digest} by {self.manifest})",
                )
        return manifest["content_hash"]


def read_manifest(path: str | Path) -> dict[str, Any]:
    """Return the description of a prepared text. Raises ValueError if the file is missing or damaged."""
    return json.loads(files.read_bytes(path))

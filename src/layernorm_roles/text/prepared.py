"""The files that `prepare` writes for a text: their paths, and a hash that identifies what models are trained on."""

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
"""The names of a prepared text's files, by what they hold."""


@dataclass(frozen=True)
class PreparedText:
    """A text that `prepare` has written to `folder`: the paths of its files, and a hash that identifies it."""

    folder: Path

    @property
    def tokenizer(self) -> Path:
        """The path of the tokenizer, a JSON file for the package tokenizers."""
        return self.folder / TEXT_FILES["tokenizer"]

    @property
    def contexts(self) -> Path:
        """The path of the Parquet table `contexts`, the texts on which models' attention keys are tested."""
        return self.folder / TEXT_FILES["contexts"]

    @property
    def manifest(self) -> Path:
        """The path of manifest.json, which states source, licence, split, seed, checksums and sizes of the text."""
        return self.folder / TEXT_FILES["manifest"]

    def tokens(self, part: str) -> Path:
        """The path of the .npy file with the token ids of all documents for training, or for validation."""
        return self.folder / TEXT_FILES[part]

    @property
    def seed(self) -> int:
        """The random seed in the manifest, with which contexts and BERT's validation windows are chosen."""
        return read_manifest(self.manifest)["seed"]

    def content_hash(self) -> str:
        """The SHA-256 in the manifest that identifies what models are trained on: tokenizer, token streams and seed.

        The streams are of the training and of the validation documents. Raises ValueError if the manifest is missing or
        damaged, or contradicts the stored checksum of a file beside it.
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
    """The content of a prepared text's manifest.json, as a dict."""
    return json.loads(files.read_bytes(path))

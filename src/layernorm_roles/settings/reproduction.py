"""Settings of a whole reproduction: the sections of config.yaml, and the rules between sections."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from layernorm_roles.settings.base import Identifier, Section, refuse
from layernorm_roles.settings.language_model import LanguageModels
from layernorm_roles.settings.majority import MajorityExperiment
from layernorm_roles.settings.random_keys import RandomKeys
from layernorm_roles.settings.statements import Statements
from layernorm_roles.settings.text import Text
from layernorm_roles.variants import QUERY_KEY_VARIANT, VARIANTS

_CLASS = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


class Settings(Section):
    """All settings of one reproduction, as config.yaml and its overlays give them."""

    name: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"),
        Field(description='a folder name of letters, digits, "_" and "-"; "published" is reserved'),
    ]
    """Name of the reproduction, whose outputs go to results/<name>/."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device that trains the models; auto: the GPU if there is one, else the CPU."""
    norms: dict[
        Identifier,
        Annotated[str, StringConstraints(pattern=_CLASS), Field(description='"package.module:Class"')],
    ] = Field(default_factory=dict)
    """Normalisations of the user's own, by name: a torch.nn.Module whose constructor takes the dimension d, and which
    maps (..., d) to (..., d)."""
    majority: Annotated[dict[Identifier, MajorityExperiment], Field(min_length=1)]
    """Experiments of the majority task, by name."""
    random_keys: RandomKeys
    """The experiment on random keys."""
    statements: Statements
    """Small experiments on what other documents than the paper say about LayerNorm."""
    text: Text
    """The text that language models are trained on, and the contexts whose keys are tested."""
    language_model: LanguageModels
    """The language models."""

    @model_validator(mode="after")
    def _name_is_free(self):
        if self.name == "published":
            raise refuse("name", self.name, 'another name: "published" is reserved for the kept reproduction')
        return self

    @model_validator(mode="after")
    def _contexts_fit_the_models(self):
        models = self.language_model
        for texts, model in (("long", "gpt"), ("sentences", "gpt"), ("sentences", "bert")):
            longest = getattr(self.text, texts).longest
            context_length = getattr(models, model).context_length
            if longest > context_length:
                expected = f"at most language_model.{model}.context_length = {context_length}"
                raise refuse(f"text.{texts}.longest", longest, expected)
        return self

    @model_validator(mode="after")
    def _variants_are_known(self):
        for name in self.norms:
            if name in VARIANTS or name == QUERY_KEY_VARIANT:
                raise refuse(f"norms.{name}", self.norms[name], "another name: this one is built in")
        for key, variant, _ in self.variants_used():
            extra = [QUERY_KEY_VARIANT] if key.startswith("language_model.gpt") else []
            known = [*VARIANTS, *extra, *self.norms]
            if variant not in known:
                raise refuse(key, variant, f"one of {', '.join(known)}")
        return self

    def variants_used(self) -> Iterator[tuple[str, str, int]]:
        """Every use of a variant: its key in config.yaml, its name, and the size of the vectors it normalises."""
        for experiment, task in self.majority.items():
            for variant in task.seeds:
                yield f"majority.{experiment}.seeds", variant, task.d_model
        for variant in self.random_keys.norms:
            yield "random_keys.norms", variant, self.random_keys.dimensions[0]
        for variant in self.language_model.gpt.seeds:
            yield "language_model.gpt.seeds", variant, self.language_model.gpt.d_model

    def norm_class(self, variant: str) -> str:
        """What `norms.build` takes for a variant: a built-in name, or "package.module:Class"."""
        return self.norms.get(variant, variant)

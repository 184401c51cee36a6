"""All settings of config.yaml together, and the checks that concern more than one of its sections."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from layernorm_roles.settings.base import Identifier, Integer, Real, Section, misfit_error
from layernorm_roles.settings.language_model import GPTModel, LanguageModel
from layernorm_roles.settings.majority import MajorityExperiment
from layernorm_roles.settings.pretrained import PretrainedModel
from layernorm_roles.settings.random_keys import RandomKeys
from layernorm_roles.settings.statements import Statements
from layernorm_roles.settings.text import Text
from layernorm_roles.variants import (
    MATCHED_VARIANT,
    NO_ATTENTION_VARIANT,
    QUERY_KEY_VARIANT,
    SPLIT_VARIANTS,
    VARIANTS,
    maps,
    scaled,
)

KEPT = "published"
"""Name reserved for results/published/, the results under version control; a configuration must have another name."""

_CLASS = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"

_ONE_MAP = tuple(VARIANTS)
_BEFORE_ATTENTION = (*_ONE_MAP, *SPLIT_VARIANTS)
_IN_GPT = (*_BEFORE_ATTENTION, QUERY_KEY_VARIANT, MATCHED_VARIANT, NO_ATTENTION_VARIANT)


class Use(NamedTuple):
    """A place in config.yaml where a variant is named, with the built-in names allowed there and the input shapes."""

    key: str
    """The key in config.yaml that mentions the variant, such as "majority.d8.seeds"."""
    variant: str
    shapes: tuple[tuple[int, ...], ...]
    """The shapes (..., d) of the arrays that the variant is applied to because of this mention."""
    built_in: tuple[str, ...]
    """Names of the built-in variants that this key allows; norms that the user defines are allowed, too."""


class Scaled(Section):
    """A norm that a user defines in config.yaml as a built-in norm whose output is multiplied by a constant."""

    like: Literal[_BEFORE_ATTENTION]
    """Name of the built-in norm whose output is multiplied."""
    factor: Annotated[Real, Field(gt=0, le=1e6)]
    """Number that multiplies the norm's output; where a gain or scalar is learnt, its value before training."""
    part: Literal["both", "queries_keys", "values"] = "both"
    """What is made from the multiplied output: queries, keys and values; only queries and keys; or only values."""


Norm = Annotated[
    Annotated[str, StringConstraints(pattern=_CLASS), Tag("class")] | Annotated[Scaled, Tag("scaled")],
    Discriminator(lambda entry: "scaled" if isinstance(entry, Mapping | Scaled) else "class"),
]
"""A norm that the user defines: the string "package.module:Class", or a built-in norm times a factor (`Scaled`)."""


class Settings(Section):
    """All settings of a reproduction: those of config.yaml, with a user's files laid over it."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    """Name of the folder results/<name>/ for all outputs; "published" is reserved for results under version control."""
    device: Literal["auto", "cpu", "cuda"]
    """Device on which the language models are trained; auto: the GPU if torch can use one, else the CPU.
    The models of the majority task are so small that they are trained on the CPU."""
    device_check: Literal["stop", "warn"]
    """If GPU and CPU differ in the loss or gradient of a first batch: stop raises an error, warn warns and trains."""
    threads_per_training: Annotated[Integer, Field(ge=1, le=256)]
    """CPU cores on which one language model is trained; the result does not depend on their number."""
    first_seed: Annotated[Integer, Field(ge=0, le=2**31)]
    """Random seed of the first of several trainings or draws that differ in nothing else; the next is first_seed + 1.
    It also seeds the choice of the texts on which keys are tested, and BERT's validation windows."""
    norms: dict[Identifier, Norm]
    """Norms of the user, by name: "package.module:Class" of a torch.nn.Module whose constructor takes the dimension d
    and which maps (..., d) to (..., d); or a built-in norm times a factor, as {like: projection, factor: 35}."""
    majority: Annotated[dict[Identifier, MajorityExperiment], Field(min_length=1)]
    """Experiments of the majority task, by name."""
    random_keys: RandomKeys
    """The experiment on random keys: how often Gaussian keys are unselectable after each norm."""
    statements: Statements
    """Small experiments on what other documents than the paper say about LayerNorm."""
    text: Annotated[dict[Identifier, Text], Field(min_length=1)]
    """The texts on which language models are trained and their attention keys are tested, by name."""
    language_model: Annotated[dict[Identifier, LanguageModel], Field(min_length=1)]
    """The language models that are trained and tested, GPTs and BERTs, by name."""
    pretrained: dict[Identifier, PretrainedModel]
    """Pretrained models whose attention keys are tested, by name."""

    @model_validator(mode="after")
    def _name_is_free(self):
        if self.name == KEPT:
            expected = f'another name: "{KEPT}" is reserved for the kept reproduction'
            raise misfit_error("name", self.name, expected)
        return self

    @model_validator(mode="after")
    def _texts_are_known(self):
        users = {f"language_model.{name}": model for name, model in self.language_model.items()}
        users |= {f"pretrained.{name}": model for name, model in self.pretrained.items()}
        for key, user in {**users, "statements.placement": self.statements.placement}.items():
            if user.text not in self.text:
                raise misfit_error(f"{key}.text", user.text, f"one of {', '.join(self.text)}")
        return self

    @model_validator(mode="after")
    def _contexts_fit_the_models(self):
        for name, model in self.language_model.items():
            for contexts in model.reads:
                longest = getattr(self.text[model.text], contexts).longest
                if longest > model.longest_text:
                    expected = f"at most {model.longest_text}, what language_model.{name} reads"
                    raise misfit_error(f"text.{model.text}.{contexts}.longest", longest, expected)
        return self

    @model_validator(mode="after")
    def _variants_are_known(self):
        for name in self.norms:
            if name in _IN_GPT:
                raise misfit_error(f"norms.{name}", self.norms[name], "another name: this one is built in")
        for use in self.variants_used():
            own = [name for name in self.norms if self._is_map(name) or use.built_in != _ONE_MAP]
            known = [*use.built_in, *own]
            if use.variant not in known:
                raise misfit_error(use.key, use.variant, f"one of {', '.join(known)}")
        return self

    def variants_used(self) -> Iterator[Use]:
        """Yield a `Use` for each place in the settings that names a variant of the norm; BERTs are left out."""
        for experiment, task in self.majority.items():
            for variant in task.seeds:
                shapes = tuple((task.classes, d_model) for d_model in task.d_model)
                yield Use(f"majority.{experiment}.seeds", variant, shapes, _BEFORE_ATTENTION)
        matrices, (first, last) = self.random_keys.matrices, self.random_keys.dimensions
        shapes = tuple((matrices, self.random_keys.keys[1], d) for d in range(first, last + 1))
        for variant in self.random_keys.norms:
            yield Use("random_keys.norms", variant, shapes, _ONE_MAP)
        for name, model in self.language_model.items():
            for variant in model.seeds if isinstance(model, GPTModel) else ():
                shape = (model.batch_size, model.context_length, model.d_model)
                yield Use(f"language_model.{name}.seeds", variant, (shape,), _IN_GPT)

    def norm_class(self, variant: str) -> str:
        """The name under which `norms.build_pair` builds the variant that config.yaml calls `variant`.

        It is a built-in name, "package.module:Class", or a built-in name times a constant, such as "projection*35.0".
        """
        norm = self.norms.get(variant, variant)
        return scaled(**norm.model_dump()) if isinstance(norm, Scaled) else norm

    def _is_map(self, variant: str) -> bool:
        """Whether a norm that the user defines makes queries, keys and values from one output."""
        both = maps(self.norm_class(variant))
        return both is None or both[0] == both[1]

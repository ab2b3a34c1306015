"""Documents that a process keeps as YAML, held to a model: read, told what is wrong with them, changed by the value.

What people add (keys of their own, comments) is read over and stays.  Each text is taken apart once: a rehearsal and a
replay see the same ones again and again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from interlock.documents import changing, problems
from interlock.documents.reading import Keys, read_yaml
from interlock.engine.forms import Form, Given, Unusable
from interlock.engine.run import Outcome, Run, Stop
from interlock.errors import BadInput, DocumentInvalid

M = TypeVar("M", bound=BaseModel)


class Kept(BaseModel):
    """A document in which people may have keys of their own."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Listed = Annotated[list[str], BeforeValidator(lambda it: [] if it is None else it if isinstance(it, list) else [it])]
"""As people and agents write lists: one alone without marks, none at all."""


def dumped(data: Mapping[str, Any]) -> str:
    """Data as YAML."""
    return _dumped(json.dumps(data, ensure_ascii=False))


@lru_cache(maxsize=512)
def _dumped(data: str) -> str:
    return changing.dumped(json.loads(data))


@lru_cache(maxsize=512)
def data_of(text: str, path: str) -> Any:
    """The data of a document; nobody changes it. BadInput with its line where it is no YAML."""
    return read_yaml(text, path).data


def parsed(model: type[M], text: str, path: str) -> M:
    """The document as its model; BadInput with all that is wrong with it."""
    return _parsed(model, text, path)  # type: ignore[return-value]


@lru_cache(maxsize=512)
def _parsed(model: type[BaseModel], text: str, path: str) -> BaseModel:
    return problems.load(model, read_yaml(text, path))


# What a process keeps


async def load(run: Run, model: type[M], path: str) -> M:
    """The document as it stands; raises BadInput where it cannot be used, until a person has mended it."""
    text = await run.read(path, lambda text: parsed(model, text or "", path))
    return parsed(model, text or "", path)


async def put(run: Run, path: str, values: Mapping[str, Any]) -> str:
    """Put these values into the document one by one, in mappings by key and in lists by number; its new text. Stop
    where a person changed what is not theirs."""
    wrote = await run.change(path, partial(_put, path=path, values=tuple(_leaves(values))))
    if wrote.state == "edited":
        raise edited(run, wrote.why)
    return run.text(wrote.text)


def _leaves(values: Mapping[Any, Any], above: Keys = ()) -> Iterator[tuple[Keys, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), json.dumps(value)


@lru_cache(maxsize=2048)
def _put(text: str, path: str, values: tuple[tuple[Keys, str], ...]) -> str:
    data_of(text, path)  # what is no YAML any more is said with its line
    try:
        return changing.set_yaml(text, {keys: json.loads(value) for keys, value in values})
    except (KeyError, IndexError, TypeError) as error:
        raise DocumentInvalid(f"what holds a value is not there any more ({error})", where=path) from None


def edited(run: Run, why: str) -> Stop:
    return Stop(Outcome.stopped(f"ERROR: {why}. Put it back, then resume.", again=run.scope))


def watch(run: Run, path: str, model: type[BaseModel], people: Sequence[str] = ()) -> None:
    """From here on the engine alone writes the document, but for these fields of the model, which people may change."""

    def fields(text: str) -> dict[str, Any]:
        data = data_of(text, path)
        known = data if isinstance(data, dict) else {}
        return {name: known.get(name) for name in model.model_fields if name not in people}

    run.watch(path, fields)


# What agents leave


def complaints(model: type[BaseModel], text: str | None, path: str) -> list[str]:
    """What is wrong with a document that an agent wrote, as it is told; nothing: it can be used."""
    name = path.rpartition("/")[2]
    if text is None:
        return [f"ERROR: {name} is missing"]
    try:
        parsed(model, text, path)
    except BadInput as error:
        every = (error, *error.also)
        parts = (" ".join(part for _, part in one.parts() if part) for one in every)
        return [f"ERROR: {name}: {one.what} ({more})" for one, more in zip(every, parts, strict=True)]
    return []


def held(find: Callable[[Given], list[str]]) -> Callable[[Given], Unusable | None]:
    """A `Row.read` that finds an answer unusable for what is wrong with its documents, and reads nothing of it."""
    return lambda given: Unusable(problems=tuple(wrong)) if (wrong := find(given)) else None


def reads(model: type[Form], path: str) -> Callable[[Given], Form | Unusable]:
    """A `Row.read` that takes the answer from a document."""
    wrong = held(lambda given: complaints(model, given.outputs.get(path), path))
    return lambda given: wrong(given) or parsed(model, given.outputs[path], path)


def spell(form: Mapping[str, Any], outputs: Sequence[str]) -> Mapping[str, str]:
    """A `Row.spell` for a form that stands in one document."""
    return {outputs[0]: dumped(dict(form))}

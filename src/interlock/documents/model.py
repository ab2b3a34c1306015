"""The base of every value with a schema: frozen, and nothing in it that nobody knows."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python


class Model(BaseModel):
    """A value that bytes become: events, forms, settings, documents."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


_spell = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def canonical(value: object) -> bytes:
    """The one JSON spelling of a value; names that are not UTF-8 survive as escapes."""
    return _spell(value).encode("ascii")


def plain(value: Any) -> Any:
    """A value as JSON has it, through and through: models become objects, tuples lists, enums their words."""
    return to_jsonable_python(value)

"""The events' JSON Schema, translated for Spark: a type to parse records with, and conditions that rows must meet.

Only the keywords that the schema uses are supported; another keyword is an error, so that none is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final, NamedTuple

Schema = Mapping[str, Any]

_TYPES: Final = {"integer": "BIGINT", "number": "DOUBLE", "string": "STRING", "boolean": "BOOLEAN"}
_WORDS: Final = {"integer": "an integer", "array": "an array", "object": "an object"}
_NOTES: Final = {"$schema", "title", "description"}
_KEYWORDS: Final = {"type", "const", "enum", "minimum", "minLength", "maxItems", "items", "properties", "required"}


class UnknownKeyword(ValueError):
    """The schema has an unsupported keyword."""


class Check(NamedTuple):
    """A condition that makes a row bad.

    Attributes:
        broken: an SQL expression that is true for bad rows; false and null mean that the row passes.
        reason: the error of such a row.
    """

    broken: str
    reason: str


def load() -> Schema:
    """Load the schema of an event of ``__delayed_operations``."""
    text = resources.files("purgatorio.schemas").joinpath("delayed_operation.v1.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def columns(schema: Schema) -> str:
    """Return the columns of an object, in Spark's DDL.

    Raises:
        UnknownKeyword: the schema has an unsupported keyword.
    """
    return ", ".join(f"`{name}` {_type(each)}" for name, each in schema["properties"].items())


def checks(schema: Schema, source: str) -> list[Check]:
    """Return the schema's further requirements as checks; the first broken one gives the best reason.

    Args:
        source: the SQL name of a struct with the fields `columns(schema)`, which are null where a value did not match.
    """
    return list(_object_checks(schema, source, ""))


def literal(value: object) -> str:
    """Return a constant in SQL."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnknownKeyword(f"no constant of SQL is made of {value!r}")
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _type(schema: Schema) -> str:
    unknown = set(schema) - _KEYWORDS - _NOTES
    if unknown:
        raise UnknownKeyword(f"the schema's keyword {sorted(unknown)[0]!r} is not understood")
    kind = schema["type"]
    if kind == "array":
        return f"ARRAY<{_type(schema['items'])}>"
    if kind == "object":
        fields = ", ".join(f"`{name}`: {_type(each)}" for name, each in schema["properties"].items())
        return f"STRUCT<{fields}>"
    if kind not in _TYPES:
        raise UnknownKeyword(f"the schema's type {kind!r} is not understood")
    return _TYPES[kind]


def _object_checks(schema: Schema, sql: str, path: str) -> Iterator[Check]:
    required = set(schema.get("required", ()))
    for name, each in schema["properties"].items():
        yield from _checks(each, f"{sql}.`{name}`", f"{path}{name}", required=name in required)


def _checks(schema: Schema, sql: str, name: str, *, required: bool) -> Iterator[Check]:
    """Iterate over the checks of a value. For a null value the conditions are null, so optional fields pass."""
    kind = schema["type"]
    if required:
        yield Check(f"{sql} IS NULL", f"{name} is missing or not {_WORDS.get(kind, f'a {kind}')}")
    if "const" in schema:
        yield Check(f"{sql} <> {literal(schema['const'])}", f"{name} is not {schema['const']}")
    if "enum" in schema:
        allowed = ", ".join(literal(value) for value in schema["enum"])
        yield Check(f"{sql} NOT IN ({allowed})", f"{name} is none of {', '.join(schema['enum'])}")
    if "minimum" in schema:
        yield Check(f"{sql} < {schema['minimum']}", f"{name} is below {schema['minimum']}")
    if "minLength" in schema:
        yield Check(f"length({sql}) < {schema['minLength']}", f"{name} is shorter than {schema['minLength']}")
    if "maxItems" in schema:
        yield Check(f"size({sql}) > {schema['maxItems']}", f"{name} has more than {schema['maxItems']} items")
    if kind == "array":
        item = f"item_{name.count('[]')}"
        for check in _checks(schema["items"], item, f"{name}[]", required=True):
            yield Check(f"exists({sql}, {item} -> {check.broken})", check.reason)
    if kind == "object":
        yield from _object_checks(schema, sql, f"{name}.")

"""The operations of the OpenAPI document, and how names, types and comments of them are written in each language."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

PREFIX: Final = "/api/v1"
NOTE: Final = "Written by scripts/client_operations.py of the operations' OpenAPI document; do not edit."
WIDTH: Final = 118
GO_INITIALS: Final = {"id": "ID", "ms": "Ms", "ip": "IP"}


class Field(NamedTuple):
    """What is given to an operation.

    Attributes:
        place: "path", "query", "body", or "whole" for what is the whole body.
        schema: its JSON schema, without null.
    """

    name: str
    place: str
    words: str
    schema: dict[str, Any]
    required: bool


class Called(NamedTuple):
    """An operation as a client calls it."""

    name: str
    method: str
    path: str
    words: str
    fields: tuple[Field, ...]


def operations(document: dict[str, Any]) -> Iterator[Called]:
    """Yield the operations of an OpenAPI document, in its order."""
    for path, here in document["paths"].items():
        for method, each in here.items():
            fields = [
                Field(p["name"], p["in"], p["description"], _without_null(p["schema"]), p["required"])
                for p in each.get("parameters", [])
            ]
            if method == "post":
                fields += _body(each["requestBody"]["content"]["application/json"]["schema"])
            ordered = tuple(sorted(fields, key=lambda field: not field.required))
            yield Called(each["operationId"], method.upper(), path.removeprefix(PREFIX), each["summary"], ordered)


def _body(schema: dict[str, Any]) -> Iterator[Field]:
    if schema.get("additionalProperties") is True:
        yield Field("body", "whole", "all that is given, by its names", {"type": "object"}, True)
        return
    required = schema.get("required", [])
    for name, each in schema.get("properties", {}).items():
        yield Field(name, "body", each.get("description", name), _without_null(each), name in required)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = [each for each in schema.get("anyOf", []) if each.get("type") != "null"]
    return kinds[0] if len(kinds) == 1 else schema


def camel(name: str) -> str:
    """Return a name of Python as JavaScript and Java have it."""
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))


def lower(name: str) -> str:
    """Return a name with its first letter small."""
    return name[0].lower() + name[1:]


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[0].upper()}{words[1:]}."


def comment(words: str, indent: str, mark: str) -> list[str]:
    """Return the lines of a comment, each with the mark."""
    lead = f"{indent}{mark} "
    return textwrap.wrap(words, WIDTH, initial_indent=lead, subsequent_indent=lead, break_long_words=False)


# --- types ---


def typescript_type(schema: dict[str, Any]) -> str:
    """Return the type of a schema in TypeScript."""
    if "enum" in schema:
        return " | ".join(map(quoted, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(typescript_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        inner = typescript_type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {typescript_type(values) if isinstance(values, dict) else 'any'}>"
    names = {"integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    return names.get(schema["type"], "string")


def jsdoc(words: str, indent: str) -> list[str]:
    """Return a sentence as a comment of JavaScript or Java."""
    one = f"{indent}/** {sentence(words)} */"
    rest = comment(sentence(words), f"{indent} ", "*")
    return [one] if len(one) <= WIDTH else [f"{indent}/**", *rest, f"{indent} */"]


def quoted(text: str) -> str:
    """Return a text in quotes."""
    return f'"{text}"'


def quoted_list(names: Iterable[str]) -> str:
    """Return a list of texts as JavaScript has it."""
    return f"[{', '.join(map(quoted, names))}]"


def go_name(name: str) -> str:
    """Return a name of Python as Go has it, exported."""
    return "".join(GO_INITIALS.get(part, part.capitalize()) for part in name.split("_"))


def go_type(schema: dict[str, Any]) -> str:
    """Return the type of a schema in Go."""
    if "anyOf" in schema:
        return "any"
    if schema.get("type") == "array":
        return f"[]{go_type(schema['items'])}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"map[string]{go_type(values) if isinstance(values, dict) else 'any'}"
    return {"integer": "int", "number": "float64", "boolean": "bool"}.get(schema["type"], "string")


def java_comment(words: str, indent: str) -> list[str]:
    """Return a sentence as a comment of Java."""
    return jsdoc(escaped(words), indent)


def escaped(words: str) -> str:
    """Return words as a comment of Java may have them."""
    return html.escape(words, quote=False).replace("@", "&#64;").replace("*/", "* /")


def java_type(schema: dict[str, Any], boxed: bool = False) -> str:
    """Return the type of a schema in Java; an object of it if `boxed`."""
    if "anyOf" in schema:
        return "?" if boxed else "Object"
    if schema.get("type") == "array":
        return f"List<{generic(java_type(schema['items'], boxed=True))}>"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Map<String, {generic(java_type(values, boxed=True)) if isinstance(values, dict) else '?'}>"
    plain = {"integer": "long", "number": "double", "boolean": "boolean"}.get(schema["type"], "String")
    return {"long": "Long", "double": "Double", "boolean": "Boolean"}.get(plain, plain) if boxed else plain


def generic(kind: str) -> str:
    """Return a type as a parameter of another one."""
    return f"? extends {kind}" if kind.startswith(("List", "Map")) else kind

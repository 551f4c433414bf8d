"""Write the operations of the admin HTTP in other languages: files in `clients/`, of the OpenAPI document.

``python scripts/client_operations.py`` tells which files are not as they should be; ``--write`` writes them.
"""

from __future__ import annotations

import html
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from purgatorio.admin.web.openapi import openapi

CLIENTS: Final = Path(__file__).resolve().parents[1] / "clients"
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


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _comment(words: str, indent: str, mark: str) -> list[str]:
    lead = f"{indent}{mark} "
    return textwrap.wrap(words, WIDTH, initial_indent=lead, subsequent_indent=lead, break_long_words=False)


# --- JavaScript and TypeScript ---


def javascript(called: Iterable[Called]) -> str:
    """Return the table of operations for JavaScript."""
    lines = ['"use strict";', f"// {NOTE}", "", "module.exports = {"]
    for each in called:
        named = {place: [field.name for field in each.fields if field.place == place] for place in ("query", "body")}
        whole = any(field.place == "whole" for field in each.fields)
        lines.append(
            f"  {_lower(each.name)}: {{ method: {_quoted(each.method)}, path: {_quoted(each.path)}, "
            f"query: {_list(named['query'])}, body: {'null' if whole else _list(named['body'])} }},"
        )
    return "\n".join([*lines, "};", ""])


def typescript(called: Iterable[Called]) -> str:
    """Return the types of operations for TypeScript."""
    lines = [f"// {NOTE}", "", "export type Answer = Record<string, any>;", "", "export interface Operations {"]
    for each in called:
        lines += _comment(f"{_sentence(each.words)} */", "  ", "/**")[:1]
        if not lines[-1].endswith("*/"):
            rest = _comment(_sentence(each.words), "   ", "*")
            lines[-1:] = ["  /**", *rest, "   */"]
        whole = next((field for field in each.fields if field.place == "whole"), None)
        if whole is not None:
            given = "given: Record<string, any>"
        elif each.fields:
            parts = [f"{f.name}{'' if f.required else '?'}: {_typescript_type(f.schema)}" for f in each.fields]
            given = f"given{'' if each.fields[0].required else '?'}: {{ {'; '.join(parts)} }}"
        else:
            given = ""
        lines.append(f"  {_lower(each.name)}({given}): Promise<Answer>;")
    return "\n".join([*lines, "}", ""])


def _typescript_type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(_quoted, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(_typescript_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        inner = _typescript_type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_typescript_type(values) if isinstance(values, dict) else 'any'}>"
    names = {"integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    return names.get(schema["type"], "string")


def _quoted(text: str) -> str:
    return f'"{text}"'


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


# --- Go ---


def go(called: Iterable[Called]) -> str:
    """Return a struct for each operation, as gofmt would have it."""
    lines = [f"// Code generated by scripts/client_operations.py; DO NOT EDIT.\n// {NOTE}", "", "package purgatorio"]
    for each in called:
        lines += ["", *_comment(f"{each.name}: {each.words}.", "", "//")]
        if not each.fields:
            lines.append(f"type {each.name} struct{{}}")
        else:
            lines.append(f"type {each.name} struct {{")
            for number, field in enumerate(each.fields):
                lines += [""] * (number > 0) + _comment(_sentence(field.words), "\t", "//")
                kind = _go_type(field.schema)
                pointer = "" if field.required or kind.startswith(("[", "map")) else "*"
                lines.append(f'\t{_go_name(field.name)} {pointer}{kind} `{field.place}:"{field.name}"`')
            lines.append("}")
        lines += ["", f"func ({each.name}) http() (string, string) {{"]
        lines += [f'\treturn "{each.method}", "{each.path}"', "}"]
    return "\n".join([*lines, ""])


def _go_name(name: str) -> str:
    return "".join(GO_INITIALS.get(part, part.capitalize()) for part in name.split("_"))


def _go_type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return "any"
    if schema.get("type") == "array":
        return f"[]{_go_type(schema['items'])}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"map[string]{_go_type(values) if isinstance(values, dict) else 'any'}"
    return {"integer": "int", "number": "float64", "boolean": "bool"}.get(schema["type"], "string")


# --- Java ---


def java(called: Iterable[Called]) -> str:
    """Return a class for each operation."""
    head = [
        f"// {NOTE}",
        "package purgatorio;",
        "",
        "import java.util.List;",
        "import java.util.Map;",
        "",
        "/** The operations on a cluster, for {@link Kafka#run}. */",
        "public final class Operations {",
        "    private Operations() {}",
    ]
    return "\n".join([*head, *(line for each in called for line in _java_class(each)), "}", ""])


def _java_class(each: Called) -> Iterator[str]:
    required = [field for field in each.fields if field.required]
    yield from ("", *_java_comment(each.words, "    "))
    yield f"    public static final class {each.name} extends Operation {{"
    if required:
        yield "        /**"
        for field in required:
            yield from _comment(f"@param {_java_name(field.name)} {_escaped(field.words)}", "         ", "*")
        yield "         */"
    given = ", ".join(f"{_java_type(field.schema)} {_java_name(field.name)}" for field in required)
    yield f"        public {each.name}({given}) {{"
    yield f'            super("{each.method}", "{each.path}");'
    for field in required:
        yield f"            {_java_put(field)};"
    yield "        }"
    for field in each.fields:
        if not field.required:
            yield from ("", *_java_comment(field.words, "        "))
            kind, name = _java_type(field.schema), _java_name(field.name)
            yield f"        public {each.name} {name}({kind} {name}) {{"
            yield f"            {_java_put(field)};"
            yield "            return this;"
            yield "        }"
    yield "    }"


def _java_comment(words: str, indent: str) -> list[str]:
    text = _escaped(_sentence(words))
    one = f"{indent}/** {text} */"
    return [one] if len(one) <= WIDTH else [f"{indent}/**", *_comment(text, f"{indent} ", "*"), f"{indent} */"]


def _escaped(words: str) -> str:
    return html.escape(words, quote=False).replace("@", "&#64;").replace("*/", "* /")


def _java_put(field: Field) -> str:
    if field.place == "whole":
        return "whole(body)"
    return f'{field.place}("{field.name}", {_java_name(field.name)})'


def _java_name(name: str) -> str:
    return _camel(name)


def _java_type(schema: dict[str, Any], boxed: bool = False) -> str:
    if "anyOf" in schema:
        return "?" if boxed else "Object"
    if schema.get("type") == "array":
        return f"List<{_generic(_java_type(schema['items'], boxed=True))}>"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Map<String, {_generic(_java_type(values, boxed=True)) if isinstance(values, dict) else '?'}>"
    plain = {"integer": "long", "number": "double", "boolean": "boolean"}.get(schema["type"], "String")
    return {"long": "Long", "double": "Double", "boolean": "Boolean"}.get(plain, plain) if boxed else plain


def _generic(kind: str) -> str:
    return f"? extends {kind}" if kind.startswith(("List", "Map")) else kind


# --- the files ---

FILES: Final[dict[str, Callable[[Iterable[Called]], str]]] = {
    "javascript/operations.js": javascript,
    "javascript/operations.d.ts": typescript,
    "go/operations.go": go,
    "java/src/main/java/purgatorio/Operations.java": java,
}
"""The files below `clients/`, with what makes them."""


def texts() -> dict[str, str]:
    """Return what the files should have."""
    called = list(operations(openapi()))
    assert all(re.fullmatch(r"[A-Z]\w+", each.name) for each in called)
    return {name: make(called) for name, make in FILES.items()}


def main(argv: list[str]) -> int:
    """Compare the files, or write them; return the exit code."""
    stale = [name for name, text in texts().items() if not (CLIENTS / name).exists() or _read(name) != text]
    if "--write" in argv:
        for name in stale:
            (CLIENTS / name).parent.mkdir(parents=True, exist_ok=True)
            (CLIENTS / name).write_text(texts()[name], encoding="utf-8")
    elif stale:
        print("not as they should be, run scripts/client_operations.py --write:", *stale, sep="\n  ")
        return 1
    return 0


def _read(name: str) -> str:
    return (CLIENTS / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The names of the Python kit as methods in JavaScript, TypeScript, Go and Java, of the table in `kit_names.py`.

`scripts/client_operations.py` writes the files. A method does an operation, whose fields have the types; its words are
the first ones of the method in Python.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from client_table import (
    Called,
    camel,
    comment,
    go_name,
    go_type,
    java_comment,
    java_type,
    jsdoc,
    lower,
    quoted,
    quoted_list,
    sentence,
    typescript_type,
)
from kit_names import BY_HAND, KIT, VALUES, WITHOUT, KitName
from purgatorio.testing.access_controls import Quota
from purgatorio.testing.clock import KafkaClock
from purgatorio.testing.faults import Fault
from purgatorio.testing.kafka import Kafka
from purgatorio.testing.share_groups import ShareGroup

NOTE: Final = "Written by scripts/client_operations.py of scripts/kit_names.py; do not edit."
OWNERS: Final[dict[str, type]] = {
    "Kafka": Kafka,
    "KafkaClock": KafkaClock,
    "ShareGroup": ShareGroup,
    "Fault": Fault,
    "Quota": Quota,
}
OWNER_WORDS: Final = {
    "KafkaClock": "the brokers' time, moved by hand",
    "ShareGroup": "a share group, which need not exist yet",
    "Fault": "a fault rule of a cluster",
}
CONDITION_WORDS: Final = {
    "times": "How often; once if it is not given.",
    "state": "As Kafka names it: Stable, Empty, PreparingRebalance …; any if it is not given.",
    "members": "How many; any number if it is not given.",
}
VALUE_WORDS: Final = {
    "Parked": "a request, or another operation, that waits in a broker's purgatory",
    "Ended": "an operation whose time was over",
    "InFlight": "neighbouring records of a partition that a share group has not done with",
    "Member": "a member of a consumer group",
    "Group": "a consumer group",
}
FREE_FIELDS: Final[dict[str, dict[str, Any]]] = {"toxic": {"type": "string"}, "hide": {"type": "integer"}}
"""The types of fields that an operation takes among others."""


class Param(NamedTuple):
    """What is given to a method.

    Attributes:
        field: the operation's field.
        schema: its JSON schema; "" as its type for a value of `VALUES`.
    """

    name: str
    field: str
    schema: dict[str, Any]
    words: str = ""


class Method(NamedTuple):
    """A method of the table, with the operation that it does.

    Attributes:
        many: whether the one argument may be given any number of times.
        key, kind: what it returns of the answer, and of which kind: "int", "text", "texts", "bool", a value, or a list
            of values; "": nothing.
    """

    kit: KitName
    name: str
    called: Called
    words: str
    takes: tuple[Param, ...]
    options: tuple[Param, ...]
    many: bool
    key: str
    kind: str

    @property
    def value(self) -> str:
        """The value that it returns, or of which it returns a list."""
        return self.kind.removesuffix("[]")

    @property
    def condition_options(self) -> dict[str, str]:
        """The options that say until when it waits, with their kinds."""
        return {"times": {"times": "int"}, "group": {"state": "text", "members": "int"}}.get(self.kit.until, {})


def methods(called: Iterable[Called]) -> Iterator[Method]:
    """Yield the methods of the table."""
    by_name = {each.name: each for each in called}
    for kit in KIT:
        operation = by_name[kit.operation]
        takes, options = (
            tuple(_param(each, operation) for each in texts.split()) for texts in (kit.takes, kit.options)
        )
        key, _, kind = kit.returns.partition(":")
        many = kit.takes.startswith("*")
        yield Method(kit, kit.elsewhere or kit.name, operation, _words(kit), takes, options, many, key, kind)


def _param(text: str, operation: Called) -> Param:
    """Return what a text of the table gives to a method."""
    name, _, field = text.lstrip("*").partition("=")
    name, _, value = name.partition(":")
    if value:
        return Param(name, "", {"type": value})
    known = next((each for each in operation.fields if each.name == (field or name)), None)
    if known is None:
        return Param(name, field or name, FREE_FIELDS[field or name])
    if text.startswith("*") and "anyOf" in known.schema["items"]:
        return Param(name, known.name, {"type": "array", "items": {"type": "string"}})
    return Param(name, known.name, known.schema, known.words)


def _words(kit: KitName) -> str:
    if kit.words:
        return kit.words
    text = inspect.getdoc(getattr(OWNERS[kit.owner], kit.name))
    assert text, kit
    first = text.partition("\n\n")[0].replace("\n", " ").replace("``", "`")
    return re.sub(r", with `await` or `\.wait\(\)`,", "", first).rstrip(".")


def _by_owner(called: Iterable[Called]) -> dict[str, list[Method]]:
    found: dict[str, list[Method]] = {owner: [] for owner in JS_CLASSES}
    for each in methods(called):
        found[each.kit.owner].append(each)
    return found


# --- JavaScript ---

JS_CLASSES: Final = {"Kafka": "Controls", "KafkaClock": "Clock", "ShareGroup": "ShareGroup", "Fault": "Fault"}


def javascript(called: Iterable[Called]) -> str:
    """Return the classes with the methods for JavaScript."""
    lines = ['"use strict";', f"// {NOTE}", ""]
    lines += ['const { counts, needed, named, unlessRefused, until } = require("./calls.js");', ""]
    for value, attributes in VALUES.items():
        parts = [f"{camel(name)}: {_js_part(source, kind)}" for name, (source, kind) in attributes.items()]
        lines += [f"const {_js_maker(value)} = (row) => ({{ {', '.join(parts)} }});"]
    for owner, of_owner in reversed(_by_owner(called).items()):
        lines += ["", f"class {JS_CLASSES[owner]} {{"]
        if owner != "Kafka":
            has_id = owner != "KafkaClock"
            lines += [f"  constructor(kafka{', id' * has_id}) {{", "    this.operations = kafka.operations;"]
            lines += [*["    this.id = id;"] * has_id, "  }"]
        for number, each in enumerate(of_owner):
            lines += [""] * (number > 0 or owner != "Kafka") + list(_js_method(each))
        lines.append("}")
    return "\n".join([*lines, "", f"module.exports = {{ {', '.join(JS_CLASSES.values())} }};", ""])


def _js_maker(value: str) -> str:
    return f"as{value}"


def _js_part(source: str, kind: str) -> str:
    return f"row.{source}.map({_js_maker(kind[:-2])})" if kind.endswith("[]") else f"row.{source}"


def _js_method(each: Method) -> Iterator[str]:
    kit, name = each.kit, camel(each.name)
    takes = [("..." if each.many else "") + camel(param.name) for param in each.takes]
    takes += [camel(kit.whole)] * bool(kit.whole)
    has_options = bool(each.options or kit.until)
    yield from jsdoc(each.words, "  ")
    yield f"  async {name}({', '.join(takes + ['options'] * has_options)}) {{"
    if kit.left_out == "the same":
        pass
    elif kit.left_out == "each running broker":
        yield f"    if (broker === undefined) for (const each of await this.runningBrokers()) await this.{name}(each);"
        yield "    if (broker === undefined) return;"
    elif kit.left_out:
        yield f"    if (broker === undefined) return void (await this.operations.{lower(kit.left_out)}());"
    elif each.takes and not each.many:
        yield f"    needed({quoted(name)}, {{ {', '.join(takes)} }});"
    if kit.until:
        of_condition = ", ".join(["timeoutMs", *map(camel, each.condition_options)])
        yield f"    const {{ {of_condition}, ...wanted }} = options ?? {{}};"
        asked = f"[{', '.join([*takes, 'options'])}]"
        yield f"    return await until({quoted(name)}, {asked}, timeoutMs, async () => {{"
        yield from (f"  {line}" for line in _js_lines(each, "wanted"))
        yield f"      return {_js_condition(each)} ? found : undefined;"
        yield "    });"
    else:
        yield from _js_lines(each, "options")
    yield "  }"


def _js_lines(each: Method, options: str) -> Iterator[str]:
    """Yield the lines that do the operation, and return what it has found, or name it `found` for a condition."""
    kit = each.kit
    given = [f"...{camel(kit.whole)}"] * bool(kit.whole)
    if each.options or kit.until:
        names = [param.name for param in each.options]
        given.append(f"...named({options}, {quoted_list(names)})")
    given += [f"{field}: {_json(value)}" for field, value in kit.fixed.items()]
    given += [f"{kit.own}: this.id"] * bool(kit.own)
    for param in each.takes:
        name = camel(param.name)
        given += [name if name == param.field else f"{param.field}: {name}"] * bool(param.field)
        given += [f"{field}: {name}.{camel(attribute)}" for field, attribute in kit.of.items()]
    call = f"this.operations.{lower(kit.operation)}({'{ ' + ', '.join(given) + ' }' if given else ''})"
    if kit.may_be_refused:
        call = f"unlessRefused({call})"
    if not each.kind:
        yield f"    await {call};"
        return
    yield f"    const answer = await {call};"
    yield f"    {'const found =' if kit.until else 'return'} {_js_found(each)};"


def _js_found(each: Method) -> str:
    if each.kit.among:
        return f"counts(answer.{each.kit.among}, this.id).{each.key}"
    if each.value == "Fault":
        return "answer.faults.map((row) => new Fault(this, row.id))" if each.key else "new Fault(this, answer.id)"
    part = f"answer.{each.key}" if each.key else "answer"
    if each.value not in VALUES:
        return part
    if each.kit.inner:
        merged = f"{_js_maker(each.value)}({{ ...row, ...each }})"
        return f"{part}.flatMap((row) => row.{each.kit.inner}.map((each) => {merged}))"
    if each.kind.endswith("[]"):
        return f"{part}.map({_js_maker(each.value)})"
    made = f"{_js_maker(each.value)}({part})"
    return f"{part} && {made}" if each.kit.may_be_refused else made


def _js_condition(each: Method) -> str:
    return {
        "found": "found.length > 0",
        "true": "found",
        "times": "found >= (times ?? 1)",
        "group": "found && (state ?? found.state) === found.state && "
        "(members ?? found.members.length) === found.members.length",
    }[each.kit.until]


def _json(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


# --- TypeScript ---

TS_KINDS: Final = {
    "int": "number",
    "int?": "number | null",
    "text": "string",
    "text?": "string | null",
    "bool": "boolean",
    "texts": "string[]",
    "data": "Record<string, any>[]",
    "": "void",
}


def typescript(called: Iterable[Called]) -> str:
    """Return the types of the methods for TypeScript."""
    lines = [f"// {NOTE}", "", 'import type { Operations } from "./operations.js";']
    for value, attributes in VALUES.items():
        lines += ["", *jsdoc(VALUE_WORDS[value], ""), f"export interface {value} {{"]
        lines += [f"  {camel(name)}: {_ts_kind(kind)};" for name, (_, kind) in attributes.items()] + ["}"]
    for owner, of_owner in _by_owner(called).items():
        lines += ["", *(jsdoc(OWNER_WORDS[owner], "") if owner in OWNER_WORDS else [])]
        lines += [f"export declare class {JS_CLASSES[owner]} {{"]
        if owner in ("ShareGroup", "Fault"):
            lines.append(f"  readonly id: {'string' if owner == 'ShareGroup' else 'number'};")
        lines += ["  readonly operations: Operations;"]
        for each in of_owner:
            lines += jsdoc(each.words, "  ")
            kind = f"{each.kind} | null" if each.kit.may_be_refused and each.kind and not each.kit.until else each.kind
            lines.append(f"  {camel(each.name)}({_ts_params(each)}): Promise<{_ts_kind(kind)}>;")
        lines.append("}")
    return "\n".join([*lines, ""])


def _ts_params(each: Method) -> str:
    kit = each.kit
    optional = "?" if kit.left_out else ""
    given = []
    for param in each.takes:
        kind = typescript_type(param.schema) if param.field else param.schema["type"]
        # The field of any number of arguments is a list.
        given.append(f"{'...' if each.many else ''}{camel(param.name)}{optional}: {kind}")
    given += [f"{camel(kit.whole)}: Record<string, any>"] * bool(kit.whole)
    options = [f"{camel(param.name)}?: {typescript_type(param.schema)}" for param in each.options]
    if kit.until:
        options += [f"{camel(name)}?: {TS_KINDS[kind]}" for name, kind in each.condition_options.items()]
        options.append("timeoutMs?: number")
    given += [f"options?: {{ {'; '.join(options)} }}"] * bool(options)
    return ", ".join(given)


def _ts_kind(kind: str) -> str:
    return TS_KINDS.get(kind, kind)


# --- Go ---

GO_KINDS: Final = {
    "int": "int",
    "int?": "*int",
    "text": "string",
    "text?": "string",
    "bool": "bool",
    "texts": "[]string",
    "data": "[]map[string]any",
}
GO_OWNERS: Final = {
    "Kafka": ("k", "Kafka", "k"),
    "KafkaClock": ("c", "Clock", "c.kafka"),
    "ShareGroup": ("g", "ShareGroup", "g.kafka"),
    "Fault": ("f", "Fault", "f.kafka"),
}
"""The receiver, its type, and the cluster."""


def go(called: Iterable[Called]) -> str:
    """Return the methods for Go, as gofmt would have it."""
    lines = [f"// Code generated by scripts/client_operations.py; DO NOT EDIT.\n// {NOTE}", "", "package purgatorio"]
    lines += ["", 'import "time"']
    for value, attributes in VALUES.items():
        lines += ["", f"// {value} is {VALUE_WORDS[value]}.", f"type {value} struct {{"]
        lines += _go_fields((go_name(n), _go_kind(k), f'`json:"{source}"`') for n, (source, k) in attributes.items())
        lines.append("}")
    for each in methods(called):
        lines += ["", *_go_options(each), *_go_method(each)]
    return "\n".join([*lines, ""])


def _go_fields(fields: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the fields of a struct in columns, as gofmt has them."""
    rows = list(fields)
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"\t{row[0]:{widths[0]}} {row[1]:{widths[1]}} {row[2]}".rstrip() for row in rows]


def _go_kind(kind: str) -> str:
    return f"[]{_go_kind(kind[:-2])}" if kind.endswith("[]") else GO_KINDS.get(kind, kind)


def _go_options(each: Method) -> Iterator[str]:
    if not (each.options or each.kit.until):
        return
    name = go_name(each.name)
    yield f"// {name}Options has what may be left out of {name}."
    yield f"type {name}Options struct {{"
    fields = [(go_name(p.name), go_type(p.schema), sentence(p.words)) for p in each.options]
    fields += [(go_name(n), GO_KINDS[k], CONDITION_WORDS[n]) for n, k in each.condition_options.items()]
    fields += [("Timeout", "time.Duration", "The longest wait; ten seconds if it is not given.")] * bool(each.kit.until)
    for number, (field, kind, words) in enumerate(fields):
        yield from [""] * (number > 0) + comment(words, "\t", "//")
        yield f"\t{field} {kind}"
    yield "}"
    yield ""


def _go_method(each: Method) -> Iterator[str]:
    kit = each.kit
    receiver, owner, _ = GO_OWNERS[kit.owner]
    name = go_name(each.name)
    result = _go_result(each)
    yield from comment(f"{name}: {each.words[0].lower()}{each.words[1:]}.", "", "//")
    yield f"func ({receiver} *{owner}) {name}({_go_params(each)}) {f'({result}, error)' if result else 'error'} {{"
    if kit.left_out and kit.left_out != "the same":
        yield "\tif len(brokers) == 0 {"
        if kit.left_out == "each running broker":
            yield "\t\trunning, err := k.RunningBrokers()"
            yield "\t\tif err != nil {"
            yield "\t\t\treturn err"
            yield "\t\t}"
            yield "\t\tbrokers = running"
        else:
            yield f"\t\treturn k.done({kit.left_out}{{}})"
        yield "\t}"
        yield "\tfor _, broker := range brokers {"
        yield f"\t\tif err := k.done({_go_operation(each)}); err != nil {{"
        yield "\t\t\treturn err"
        yield "\t\t}"
        yield "\t}"
        yield "\treturn nil"
    else:
        if each.options or kit.until:
            yield "\to := first(options)"
        yield from _go_body(each)
    yield "}"


def _go_params(each: Method) -> str:
    kit = each.kit
    if kit.left_out and kit.left_out != "the same":
        return "brokers ...int"
    given = []
    for param in each.takes:
        kind = go_type(param.schema) if param.field else param.schema["type"]
        given.append(f"{camel(param.name)} {'...' + kind.removeprefix('[]') if each.many else kind}")
    given += [f"{camel(kit.whole)} map[string]any"] * bool(kit.whole)
    given += [f"options ...{go_name(each.name)}Options"] * bool(each.options or kit.until)
    return ", ".join(given)


def _go_result(each: Method) -> str:
    if each.kit.until == "true":
        return ""
    if each.value == "Fault":
        return "[]*Fault" if each.key else "*Fault"
    return f"*{each.kind}" if each.kit.may_be_refused and each.kind else _go_kind(each.kind)


def _go_operation(each: Method) -> str:
    """Return the operation as an expression."""
    kit = each.kit
    fields = {field.name: field for field in each.called.fields}
    given = {field: _json(value) for field, value in kit.fixed.items()}
    given |= {kit.own: f"{GO_OWNERS[kit.owner][0]}.ID"} if kit.own else {}
    for param in each.takes:
        is_any = param.field in fields and go_type(fields[param.field].schema) == "[]any"
        name = camel(param.name)
        given |= {param.field: f"list({name})" if is_any else name} if param.field else {}
    given |= {field: f"{camel(each.takes[0].name)}.{go_name(attribute)}" for field, attribute in kit.of.items()}
    if any(field.place == "whole" for field in each.called.fields):
        free = ", ".join(f"{quoted(field)}: {value}" for field, value in given.items())
        return f"{kit.operation}{{Body: with({camel(kit.whole) or 'nil'}, map[string]any{{{free}}})}}"
    pointer = "given" if kit.left_out == "the same" else "Ptr"
    parts = {name: value if fields[name].required else f"{pointer}({value})" for name, value in given.items()}
    parts |= {param.field: f"given(o.{go_name(param.name)})" for param in each.options}
    return f"{kit.operation}{{{', '.join(f'{go_name(name)}: {value}' for name, value in parts.items())}}}"


def _go_body(each: Method) -> Iterator[str]:
    kit = each.kit
    kafka = GO_OWNERS[kit.owner][2]
    if not each.kind:
        call = f"{kafka}.done({_go_operation(each)})"
        yield f"\treturn {f'unlessRefused({call})' if kit.may_be_refused else call}"
        return
    indent = "\t"
    if kit.until:
        kind = "struct{}" if kit.until == "true" else _go_result(each)
        start = "_, err := " if kit.until == "true" else "return "
        yield f"\t{start}until({quoted(go_name(each.name))}, o, o.Timeout, func() ({kind}, bool, error) {{"
        indent = "\t\t"
    yield from (indent + line for line in _go_lines(each, kafka))
    found = _go_found(each)
    if not kit.until:
        yield f"\treturn {found}, err"
        return
    condition = {
        "found": f"len({found}) > 0",
        "true": found,
        "times": f"{found} >= max(1, o.Times)",
        "group": 'found != nil && (o.State == "" || o.State == found.State) && '
        "(o.Members == 0 || o.Members == len(found.Members))",
    }[kit.until]
    yield f"\t\treturn {'struct{}{}' if kit.until == 'true' else found}, {condition}, err"
    yield "\t})"
    if kit.until == "true":
        yield "\treturn err"


def _go_lines(each: Method, kafka: str) -> Iterator[str]:
    """Yield the lines that do the operation; `_go_found` is what it returns."""
    kit = each.kit
    if kit.among:
        yield "row, err := f.counts()"
        return
    if kit.may_be_refused:
        yield f"found, err := answerUnlessRefused[{each.kind}]({kafka}, {_go_operation(each)})"
        return
    if each.value == "Fault":
        yield from _go_answer("Faults", "[]*Fault", each.key) if each.key else ["var answer Fault"]
    elif kit.inner:
        kind = _go_kind(each.kind)
        fields = _go_fields([("Topic", "string", ""), ("Partition", "int", ""), (go_name(kit.inner), kind, "")])
        yield from ("var answer struct {", f"\t{go_name(each.key)} []struct {{", *(f"\t{field}" for field in fields))
        yield from ("\t}", "}", f"var found {kind}")
    elif each.key:
        yield from _go_answer(go_name(each.key), _go_kind(each.kind), each.key)
    else:
        yield f"var answer {each.kind}"
    yield f"err := {kafka}.do({_go_operation(each)}, &answer)"
    if kit.inner:
        yield f"for _, row := range answer.{go_name(each.key)} {{"
        yield f"\tfor _, each := range row.{go_name(kit.inner)} {{"
        yield "\t\teach.Topic, each.Partition = row.Topic, row.Partition"
        yield from ("\t\tfound = append(found, each)", "\t}", "}")
    if each.value == "Fault" and each.key:
        yield "for _, fault := range answer.Faults {"
        yield f"\tfault.kafka = {kafka}"
        yield "}"
    elif each.value == "Fault":
        yield f"answer.kafka = {kafka}"


def _go_answer(name: str, kind: str, key: str) -> Iterator[str]:
    yield from ("var answer struct {", f'\t{name} {kind} `json:"{key}"`', "}")


def _go_found(each: Method) -> str:
    if each.kit.among:
        return f"row.{go_name(each.key)}"
    if each.kit.may_be_refused or each.kit.inner:
        return "found"
    if each.value == "Fault" and not each.key:
        return "&answer"
    return f"answer.{go_name(each.key)}" if each.key else "answer"


# --- Java ---

JAVA_KINDS: Final = {
    "int": ("long", "(Long) {}"),
    "text": ("String", "(String) {}"),
    "bool": ("boolean", "(Boolean) {}"),
    "int?": ("Long", "(Long) {}"),
    "text?": ("String", "(String) {}"),
    "texts": ("List<String>", "Calls.texts({})"),
    "data": ("List<Map<String, Object>>", "Json.objects({})"),
    "": ("void", ""),
}
"""The type of each kind, and how it is made of a part of an answer."""
BOXED: Final = {"long": "Long", "boolean": "Boolean", "double": "Double"}


def java(called: Iterable[Called]) -> str:
    """Return the class with the methods for Java, and with the values that they return."""
    imports = ["java.time.Duration", "java.util.List", "java.util.Map", "java.util.function.Consumer"]
    lines = [f"// {NOTE}", "package purgatorio;", "", *(f"import {each};" for each in imports), ""]
    lines += ["/** The controls of a cluster, by the names of the Python kit; {@link Kafka} has them. */"]
    lines += ["public abstract class KafkaControls {", "    KafkaControls() {}", ""]
    lines += [
        "    /** Do an operation; return its answer. */",
        "    public abstract Map<String, Object> run(Operation operation);",
    ]
    lines += ["", "    /** The ids of the running brokers. */", "    public abstract List<Long> runningBrokers();"]
    by_owner = _by_owner(called)
    for each in by_owner["Kafka"]:
        lines += _java_method(each, "    ")
    for owner in ("KafkaClock", "ShareGroup", "Fault"):
        lines += ["", *java_comment(OWNER_WORDS[owner], "    "), *_java_owner(owner)]
        for each in by_owner[owner]:
            lines += _java_method(each, "        ")
        lines.append("    }")
    for value, attributes in VALUES.items():
        lines += ["", *_java_record(value, attributes)]
    return "\n".join([*lines, "}", ""])


def _java_owner(owner: str) -> Iterator[str]:
    name, kind = JS_CLASSES[owner], {"ShareGroup": "String", "Fault": "long"}.get(owner)
    yield f"    public static final class {name} {{"
    yield "        private final KafkaControls kafka;"
    yield from [f"        private final {kind} id;"] * bool(kind)
    yield ""
    yield f"        {name}(KafkaControls kafka{f', {kind} id' if kind else ''}) {{"
    yield "            this.kafka = kafka;"
    yield from ["            this.id = id;"] * bool(kind)
    yield "        }"
    if kind:
        yield from (
            "",
            "        /** Its id. */",
            f"        public {kind} id() {{",
            "            return id;",
            "        }",
        )


def _java_record(value: str, attributes: dict[str, tuple[str, str]] | Any) -> Iterator[str]:
    parts = [f"{_java_kind(kind)} {camel(name)}" for name, (_, kind) in attributes.items()]
    yield from java_comment(VALUE_WORDS[value], "    ")
    yield f"    public record {value}({', '.join(parts)}) {{"
    yield f"        static {value} of(Map<String, Object> row) {{"
    yield f"            return new {value}("
    made = [_java_made(kind, f'row.get("{source}")') for source, kind in attributes.values()]
    yield from (
        f"                    {each}{',' if number < len(made) else ');'}" for number, each in enumerate(made, 1)
    )
    yield from ("        }", "    }")


def _java_kind(kind: str) -> str:
    return f"List<{kind[:-2]}>" if kind.endswith("[]") else JAVA_KINDS.get(kind, (kind, ""))[0]


def _java_made(kind: str, part: str) -> str:
    if kind.endswith("[]"):
        return f"Json.objects({part}).stream().map({kind[:-2]}::of).toList()"
    return JAVA_KINDS[kind][1].format(part) if kind in JAVA_KINDS else f"{kind}.of({part})"


def _java_method(each: Method, indent: str) -> Iterator[str]:
    """Yield the method, and those that have less to give."""
    kit, name = each.kit, camel(each.name)
    result = "void" if kit.until == "true" else _java_kind(each.kind)
    params = list(_java_params(each))
    names = [param.rpartition(" ")[2] for param in params]
    condition = [f"{JAVA_KINDS[kind][0]} {camel(name)}" for name, kind in each.condition_options.items()]
    condition_names = [each.rpartition(" ")[2] for each in condition]
    consumer = [f"Consumer<Operations.{kit.operation}> options"] * bool(each.options)
    timeout = ["Duration timeout"] * bool(kit.until)
    head = f"{indent}public {result} {name}"
    back = "" if result == "void" else "return "

    def shorter(given: list[str], passed: list[str]) -> Iterator[str]:
        yield from ("", *java_comment(each.words, indent), f"{head}({', '.join(given)}) {{")
        yield from (f"{indent}    {back}{name}({', '.join(passed)});", f"{indent}}}")

    if kit.left_out:
        yield from ("", *java_comment(each.words, indent), f"{head}() {{")
        if kit.left_out == "the same":
            yield f"{indent}    {back}{name}(null);"
        elif kit.left_out == "each running broker":
            yield f"{indent}    runningBrokers().forEach(this::{name});"
        else:
            yield f"{indent}    run(new Operations.{kit.left_out}());"
        yield f"{indent}}}"
    if each.options:
        more = ["Calls.WAIT"] if timeout else []
        yield from shorter(params, [*names, "options -> {}", *more])
    if timeout:
        passed = [*names, *condition_names, *(["options"] if consumer else []), "Calls.WAIT"]
        yield from shorter([*params, *condition, *consumer], passed)
    yield from ("", *java_comment(each.words, indent))
    if each.many and "List" in params[0]:
        yield f"{indent}@SafeVarargs"
        yield f'{indent}@SuppressWarnings("varargs")'
        head = f"{indent}public final {result} {name}"
    yield f"{head}({', '.join([*params, *condition, *consumer, *timeout])}) {{"
    yield from (f"{indent}    {line}" for line in _java_body(each, result))
    yield f"{indent}}}"


def _java_params(each: Method) -> Iterator[str]:
    for param in each.takes:
        if each.many:
            inner = "List<Integer>" if param.schema["items"]["type"] == "array" else "String"
            yield f"{inner}... {camel(param.name)}"
        else:
            yield f"{java_type(param.schema) if param.field else param.schema['type']} {camel(param.name)}"
    if each.kit.whole:
        yield f"Map<String, ?> {camel(each.kit.whole)}"


def _java_operation(each: Method) -> str:
    kit = each.kit
    given = {field: _json(value) for field, value in kit.fixed.items()}
    given |= {kit.own: "id"} if kit.own else {}
    for param in each.takes:
        name = camel(param.name)
        given |= {param.field: f"Calls.list({name})" if each.many else name} if param.field else {}
    given |= {field: f"{camel(each.takes[0].name)}.{camel(attribute)}()" for field, attribute in kit.of.items()}
    if any(field.place == "whole" for field in each.called.fields):
        rule = camel(kit.whole) or "Map.of()"
        for field, value in given.items():
            rule = f"Calls.with({rule}, {quoted(field)}, {value})"
        return f"new Operations.{kit.operation}({rule})"
    required = [given.pop(field.name) for field in each.called.fields if field.required]
    rest = "".join(f".{camel(field)}({value})" for field, value in given.items())
    return f"new Operations.{kit.operation}({', '.join(required)}){rest}"


def _java_body(each: Method, result: str) -> Iterator[str]:
    kit = each.kit
    run = "run" if kit.owner == "Kafka" else "kafka.run"
    operation = _java_operation(each)
    if each.options:
        yield f"var operation = {operation};"
        yield "options.accept(operation);"
        operation = "operation"
    asked = f"{run}({operation})"
    if kit.may_be_refused and not each.kind:
        yield f"Calls.unlessRefused(() -> {asked});"
        return
    if not each.kind:
        yield f"{asked};"
        return
    found = _java_found(each, asked)
    if not kit.until:
        yield f"return {found};"
        return
    names = [camel(param.name) for param in each.takes] + [camel(name) for name in each.condition_options]
    what = f'"{camel(each.name)}"' + "".join(f' + " " + {name}' for name in names)
    what += ' + " " + operation' if each.options else ""
    condition = {
        "found": "!found.isEmpty()",
        "true": "found",
        "times": "found >= times",
        "group": "found != null && (state == null || state.equals(found.state())) && "
        "(members < 0 || members == found.members().size())",
    }[kit.until]
    back = "" if result == "void" else "return "
    yield f"{back}Calls.until({what}, timeout, () -> {{"
    yield f"    var found = {found};"
    yield f"    return {condition} ? found : null;"
    yield "});"


def _java_found(each: Method, asked: str) -> str:
    kit = each.kit
    if kit.among:
        return f'(Long) Calls.counts({asked}, id).get("{each.key}")'
    if each.value == "Fault":
        if each.key:
            rows = f'Json.objects({asked}.get("faults")).stream()'
            return f'{rows}.map(row -> new Fault(this, (Long) row.get("id"))).toList()'
        return f'new Fault(this, (Long) {asked}.get("id"))'
    if kit.may_be_refused:
        return f"Calls.unlessRefused(() -> {each.kind}.of({asked}))"
    part = f'{asked}.get("{each.key}")'
    return _java_made(each.kind, f'Calls.inner({part}, "{kit.inner}")' if kit.inner else part)


FILES: Final[dict[str, Callable[[Iterable[Called]], str]]] = {
    "javascript/controls.js": javascript,
    "javascript/controls.d.ts": typescript,
    "go/controls.go": go,
    "java/src/main/java/purgatorio/KafkaControls.java": java,
}
"""The files below `clients/`, with what makes them."""


# --- the page ---

PREFIXES: Final = {
    "Kafka": "",
    "KafkaClock": "clock.",
    "ShareGroup": "share_group(…).",
    "Fault": "fault(…).",
    "Quota": "quota(…).",
}


def page(called: Iterable[Called]) -> str:
    """Return the tables of names for docs/languages.md."""
    rows = []
    for owner, names in BY_HAND.items():
        for name, elsewhere in names.items():
            javascript_name, go_name_, java_name = elsewhere.split()
            both = _code(javascript_name) + (f", {_code(java_name)} in Java" if java_name != javascript_name else "")
            rows.append((_shown(owner, name, "…"), both, _code(go_name_), ""))
    for each in methods(called):
        takes = [f"{'*' * each.many}{param.name}" for param in each.takes]
        takes += ["…"] * bool(each.options or each.kit.whole)
        shown = _shown(each.kit.owner, each.kit.name, ", ".join(takes))
        names = (camel(each.name), go_name(each.name))
        rows.append((shown, *map(_code, names), each.kit.operation))
    lines = ["| Python | JavaScript, Java | Go | operation |", "|---|---|---|---|"]
    lines += [
        f"| {_code(python)} | {both} | {in_go} | {operation} |" for python, both, in_go, operation in sorted(rows)
    ]
    lines += ["", "Not in the other languages:", "", "| Python | instead |", "|---|---|"]
    lines += [
        f"| {_code(_shown(owner, name, '…'))} | {reason} |"
        for owner, names in WITHOUT.items()
        for name, reason in names.items()
    ]
    return "\n".join([*lines, ""])


def _shown(owner: str, name: str, takes: str) -> str:
    """Return what has this name in Python; a method has parentheses."""
    is_method = inspect.isfunction(inspect.getattr_static(OWNERS[owner], name, None))
    return f"{PREFIXES[owner]}{name}{f'({takes})' if is_method else ''}"


def _code(text: str) -> str:
    return f"`{text}`"

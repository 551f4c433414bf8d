"""The JSON Schema as a type and as conditions, without Spark."""

from __future__ import annotations

import pytest

from purgatorio.pipeline.delays import schema


def of(**properties: object) -> schema.Schema:
    return {"properties": properties, "required": list(properties)}


def test_every_field_of_an_event_has_a_column_and_a_check_if_it_is_required() -> None:
    loaded = schema.load()
    columns = schema.columns(loaded)
    assert columns.startswith("`version` BIGINT, `broker` BIGINT, `broker_epoch` BIGINT, `purgatory` STRING, ")
    assert "`partitions` ARRAY<STRUCT<`topic`: STRING, `partition`: BIGINT>>" in columns
    assert "`held_by` ARRAY<BIGINT>" in columns
    missing = {check.broken for check in schema.checks(loaded, "event") if check.broken.endswith("` IS NULL")}
    assert missing == {f"event.`{name}` IS NULL" for name in loaded["required"]}


def test_the_version_is_checked_first_since_another_version_may_have_other_fields() -> None:
    first, second = schema.checks(schema.load(), "event")[:2]
    assert first == ("event.`version` IS NULL", "version is missing or not an integer")
    assert second == ("event.`version` <> 1", "version is not 1")


def test_constraints_become_conditions_with_reasons() -> None:
    found = schema.checks(
        of(
            n={"type": "integer", "minimum": 3},
            s={"type": "string", "enum": ["a", "it's"]},
            t={"type": "string", "minLength": 2},
            many={"type": "array", "maxItems": 4, "items": {"type": "integer", "minimum": 0}},
        ),
        "e",
    )
    assert [check for check in found if "IS NULL" not in check.broken] == [
        ("e.`n` < 3", "n is below 3"),
        ("e.`s` NOT IN ('a', 'it\\'s')", "s is none of a, it's"),
        ("length(e.`t`) < 2", "t is shorter than 2"),
        ("size(e.`many`) > 4", "many has more than 4 items"),
        ("exists(e.`many`, item_0 -> item_0 < 0)", "many[] is below 0"),
    ]


def test_the_fields_of_items_are_checked() -> None:
    item = {"type": "object", **of(topic={"type": "string"})}
    found = schema.checks(of(parts={"type": "array", "items": item}), "e")
    assert found[-1] == (
        "exists(e.`parts`, item_0 -> item_0.`topic` IS NULL)",
        "parts[].topic is missing or not a string",
    )


def test_a_missing_optional_field_passes() -> None:
    optional = {"properties": {"n": {"type": "integer", "minimum": 3}}}
    assert schema.checks(optional, "e") == [("e.`n` < 3", "n is below 3")]


@pytest.mark.parametrize("node", [{"type": "integer", "multipleOf": 2}, {"type": "null"}])
def test_a_schema_with_an_unsupported_keyword_is_an_error(node: dict[str, object]) -> None:
    with pytest.raises(schema.UnknownKeyword, match=r"multipleOf|null"):
        schema.columns(of(n=node))

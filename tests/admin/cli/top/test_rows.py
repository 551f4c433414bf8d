"""Rows of a view as text."""

from __future__ import annotations

from purgatorio.admin.cli.top.rows import MAX_CELL, MAX_LINES, Row, cells, fields_of


def test_cells_have_a_limit_and_nothing_that_acts_on_a_terminal() -> None:
    assert cells(None, 7, "a\x1b[31mb\n", "x" * 1_000) == ("-", "7", "a?[31mb?", "x" * MAX_CELL)


def test_details_are_indented_lines() -> None:
    answer = {"id": 7, "held": True, "none": [], "keys": ["a", "b"], "causes": [{"kind": "NoLeader", "tp": None}]}
    assert fields_of(answer, without=("id",)) == (
        "held: yes",
        "none: -",
        "keys:",
        "  - a",
        "  - b",
        "causes:",
        "  - kind: NoLeader",
        "    tp: -",
    )


def test_details_have_a_limit_that_is_told() -> None:
    lines = fields_of({"keys": list(range(MAX_LINES + 10))})
    assert (len(lines), lines[-1]) == (MAX_LINES + 1, "and 11 more lines")


def test_a_filter_looks_at_each_cell_in_any_case() -> None:
    row = Row("key", ("Produce 4 on 2", "billing"), ())
    assert [row.has(text) for text in ("", "PRODUCE 4", "bill", "2 billing")] == [True, True, True, False]

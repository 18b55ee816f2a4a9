"""Items shown in full, and rows that conditions leave, in the wanted order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.cli.globals import FORMATS, TABLE_FORMATS
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Item, Listing, Section
from rmqctl.cli.output.render import render
from rmqctl.errors import UnreachableError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.text.filters import parse_condition

from .hostile import items, listing, raw_in

Captured = pytest.CaptureFixture[str]


def _sections(item: Item, is_wide: bool) -> list[Section]:
    columns = (Column("PART", "part"), Column("WIDE", "wide", is_wide=True))
    parts = [{"part": "one", "wide": "x"}, {"part": item["name"], "wide": None}]
    return [
        Section(facts=[("Name", str(item["name"])), ("Wide", str(is_wide))]),
        Section(f"Parts of {item['name']}", columns=columns, items=parts),
        Section("Nothing"),
    ]


def _out(capsys: Captured, made: Listing, **display: Any) -> str:
    assert render(made, Display(**display)) == 0
    return capsys.readouterr().out


_ONE = {"items": [{"name": "a", "count": 5, "tags": [], "active": True}], "sections": _sections}


def test_an_item_is_shown_in_full_one_section_after_the_other(capsys: Captured) -> None:
    assert _out(capsys, listing(**_ONE)) == ("Name  a\nWide  False\n\nParts of a\nPART\none\na\n\nNothing\n")
    assert _out(capsys, listing(**_ONE), format="wide") == (
        "Name  a\nWide  True\n\nParts of a\nPART  WIDE\none   x\na     -\n\nNothing\n"
    )
    assert "PART" not in _out(capsys, listing(**_ONE), with_headers=False)


def test_chosen_columns_are_a_table_of_the_items_themselves(capsys: Captured) -> None:
    assert _out(capsys, listing(**_ONE), columns=("count", "name")) == "COUNT  NAME\n    5  a\n"


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in TABLE_FORMATS])
def test_sections_are_for_people_only(form: str, capsys: Captured) -> None:
    plain = {**_ONE, "sections": None}
    assert _out(capsys, listing(**_ONE), format=form) == _out(capsys, listing(**plain), format=form)


def test_nothing_raw_reaches_a_section(capsys: Captured) -> None:
    for form in TABLE_FORMATS:
        out = _out(capsys, listing(sections=_sections), format=form)
        assert not raw_in(out)
        assert "\\x1b[31mred" in out


def _names(capsys: Captured, *where: str, sort: tuple[str, ...] = (), form: str = "json") -> list[str]:
    conditions = tuple(parse_condition(text) for text in where)
    out = _out(capsys, listing(), format=form, conditions=conditions, sort_keys=sort)
    if form == "jsonl":
        return [json.loads(line)["name"] for line in out.splitlines()]
    return [item["name"] for item in json.loads(out)["items"]]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_only_rows_that_meet_all_conditions_are_left_in_the_wanted_order(form: str, capsys: Captured) -> None:
    wanted = sorted((item["name"] for item in items() if item["count"] == 1 and item["active"] is False), reverse=True)
    assert wanted
    assert _names(capsys, "count=1", "active!=true", sort=("-name",), form=form) == wanted
    unknown = [item["name"] for item in items() if item["count"] is None]
    assert _names(capsys, "count=unknown", form=form) == unknown
    assert _names(capsys, sort=("count",), form=form)[-len(unknown) :] == unknown


def test_a_key_may_be_a_columns_or_only_the_items(capsys: Captured) -> None:
    made = listing(items=[{"name": "a", "count": 1, "extra": 2, "tags": [], "active": True}])
    assert '"a"' in _out(capsys, made, format="json", conditions=(parse_condition("extra=2"),))
    for display in ({"conditions": (parse_condition("conut>1"),)}, {"sort_keys": ("-conut",)}):
        with pytest.raises(UsageError) as caught:
            render(made, Display(**display))
        assert caught.value.hint == "Did you mean count?"
    with pytest.raises(UsageError) as caught:
        render(made, Display(sort_keys=("zzz",)))
    assert caught.value.hint == "Use one of: active, count, extra, name, tags."


def test_conditions_that_leave_nothing_say_so(capsys: Captured) -> None:
    conditions = (parse_condition("count>99999999999999999999"),)
    for made in (listing(), listing(sections=_sections)):
        assert render(made, Display(conditions=conditions)) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.splitlines()[0] == "No rows match."


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("with_notes", [True, False])
def test_warnings_reach_stderr_in_every_format_and_with_q(form: str, with_notes: bool, capsys: Captured) -> None:
    made = listing(warnings=["Only the first 2 \x1b are shown."], notes=[])
    assert render(made, Display(format=form, with_notes=with_notes)) == 0
    assert capsys.readouterr().err == "rmqctl: Only the first 2 \\x1b are shown.\n"


def test_of_very_many_failures_the_rest_is_counted(capsys: Captured) -> None:
    failures = [Failure(f"b{number}", "topic", UnreachableError(f"b{number}:1", "refused")) for number in range(60_000)]
    assert render(listing(failures=failures, notes=[]), Display()) == 8
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[-1]) == (101, "rmqctl: 59900 more failures; -o json lists all of them.")


@pytest.mark.parametrize("form", FORMATS)
def test_rows_whose_unknown_number_was_not_compared_are_counted(form: str, capsys: Captured) -> None:
    unknown_count = sum(item["count"] is None for item in items())
    made = listing(notes=[])
    render(made, Display(format=form, with_notes=False, conditions=(parse_condition("count>0"),)))
    assert capsys.readouterr().err == f"rmqctl: {unknown_count} rows with unknown count were not compared (--where).\n"
    render(made, Display(format=form, with_notes=False, conditions=(parse_condition("count=unknown"),)))
    assert capsys.readouterr().err == ""

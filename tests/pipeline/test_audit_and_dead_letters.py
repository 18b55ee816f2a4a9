"""The parts of the jobs `audit` and `dlq-report` that need no Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.group import GroupConnections, Subscription
from rmqctl.pipeline.jobs.audit.start import wanted_tags
from rmqctl.pipeline.jobs.dlq_report.job import safe_text
from rmqctl.pipeline.tables.hours import ceil_hour_ms, floor_hour_ms


def _connected(expression: str, kind: str = "TAG", *, topic: str = "T", model: str = "CLUSTERING") -> GroupConnections:
    subscription = Subscription(topic, expression, kind, 1)
    return GroupConnections((), "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", {topic: subscription})


@pytest.mark.parametrize(
    ("connections", "tags"),
    [
        ([_connected("*")], []),
        ([_connected("B || A"), _connected("A||B")], ["A", "B"]),
        ([_connected("A"), _connected("B")], None),
        ([_connected("*"), _connected("a > 1", "SQL92")], None),
        ([_connected("a > 1", "SQL92")], None),
        ([_connected("*", topic="U")], None),
        ([_connected("*", model="BROADCASTING")], None),
        ([], None),
    ],
)
def test_what_a_group_wants_is_what_all_its_members_say(
    connections: list[GroupConnections], tags: list[str] | None
) -> None:
    assert wanted_tags("T", connections) == tags


@given(st.binary(max_size=300))
def test_an_excerpt_does_no_harm(body: bytes) -> None:
    text = safe_text(body)
    assert text.isprintable()
    assert len(text) <= 81


@pytest.mark.parametrize(
    ("body", "text"),
    [(b"", ""), (b"plain", "plain"), ("grüße".encode(), "grüße"), (b"a\nb\x1b[2J", "a·b·[2J"), (b"\xff", "\ufffd"),
     (b"x" * 81, "x" * 80 + "…"), (b"x" * 80, "x" * 80), ("\u202eabc".encode(), "·abc")],
)  # fmt: skip
def test_what_an_excerpt_shows(body: bytes, text: str) -> None:
    assert safe_text(body) == text


def test_hours_are_whole() -> None:
    hour_ms = 1_795_341_600_000
    assert [floor_hour_ms(hour_ms + at) - hour_ms for at in (0, 1, 3_599_999)] == [0, 0, 0]
    assert ceil_hour_ms(hour_ms) == hour_ms
    assert {ceil_hour_ms(hour_ms + at) - hour_ms for at in (1, 3_599_999, 3_600_000)} == {3_600_000}

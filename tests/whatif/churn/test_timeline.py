"""The timeline: what clients pull, and which queues have no owner or two, by parts of the time."""

from __future__ import annotations

import pytest

from rmqctl.rules.allocate.averagely import allocate_averagely
from rmqctl.whatif.churn.changes import BrokerStart, BrokerStop, Change, CutBegin, CutEnd, MemberEnd, MemberStart
from rmqctl.whatif.churn.group import ChurnGroup
from rmqctl.whatif.churn.runs import track_run
from rmqctl.whatif.churn.timeline import Timeline, make_timeline, round_part_ms
from rmqctl.whatif.churn.timing import JAVA_5_2
from rmqctl.whatif.churn.track import Span, Track
from rmqctl.whatif.sized_group import shape


@pytest.mark.parametrize(
    ("for_ms", "most_parts", "part_ms"),
    [
        (60_000, 60, 1000),
        (600_000, 60, 10_000),
        (600_000, 54, 15_000),
        (3_600_000, 54, 120_000),
        (500, 60, 1000),
        (86_400_000, 20, 7_200_000),
    ],
)
def test_parts_have_lengths_that_people_read(for_ms: int, most_parts: int, part_ms: int) -> None:
    assert round_part_ms(for_ms, most_parts) == part_ms


def _draw(track: Track, *changes: Change) -> Timeline:
    return make_timeline(track, changes, ["a", "b"], for_ms=45_000, part_ms=10_000)


def test_numbers_are_averages_of_each_part_and_of_the_time_in_which_a_client_runs() -> None:
    track = Track(
        {"a": [Span(0, 45_000), Span(5000, 20_000)], "b": [Span(0, 5000)], "b~1": [Span(26_000, 45_000)]},
        shared=[Span(0, 4000, 0), Span(40_000, 45_000, 2)],
        unowned=[Span(5000, 26_000, 3)],
    )
    timeline = _draw(track, MemberEnd(5000, "b"), MemberStart(24_000, "b~1", origin="b"))
    a, b = timeline.clients
    assert (a.client_id, a.queues, a.pull_count) == ("a", (1.5, 2, 1, 1, 1), 2)
    # What a client had before and after its restart is in one row; it ran for 6 s of the third part, and pulled for 4.
    assert (b.client_id, b.queues) == ("b", (1, None, pytest.approx(4 / 6), 1, 1))
    assert timeline.shared == (0, 0, 0, 0, 2)  # the last part has 5 s
    assert timeline.unowned == (1.5, 3, 1.8, 0, 0)
    assert timeline.is_down == {}


def test_cut_off_clients_and_brokers_that_are_down_are_marked() -> None:
    changes = (
        CutBegin(12_000, "a", ("broker-1",)), BrokerStop(15_000, "broker-1"), CutEnd(18_000, "a", ("broker-1",)),
        BrokerStart(31_000, "broker-1"), MemberStart(32_000, "c"), CutBegin(41_000, "b", ("broker-1",)),
        CutBegin(50_000, "c", ("broker-1",)),
    )  # fmt: skip
    timeline = _draw(Track(), *changes)
    assert [(row.client_id, row.is_cut) for row in timeline.clients] == [
        ("a", (False, True, False, False, False)),
        ("b", (False, False, False, False, True)),
        ("c", (False,) * 5),
    ]
    assert timeline.clients[2].queues == (None, None, None, 0, 0)
    assert timeline.is_down == {"broker-1": (False, True, True, True, False)}


def test_a_run_leaves_what_its_figures_are_made_of() -> None:
    size = shape(2, 4, 3)
    group = ChurnGroup(
        queues=size.queues, client_ids=size.client_ids, allocate=allocate_averagely, timing=JAVA_5_2
    )  # fmt: skip
    changes = [MemberEnd(20_000, each) for each in size.client_ids] + [MemberStart(40_000, "new")]
    track = track_run(group, changes, protection_ms=0, for_ms=60_000, seed=1)
    timeline = make_timeline(track, changes, size.client_ids, for_ms=60_000, part_ms=20_000)
    assert [row.queues for row in timeline.clients[:3]] == [(3, None, None), (3, None, None), (2, None, None)]
    pulled = timeline.clients[3].queues[2]
    assert pulled is not None
    # Each queue has one owner or none.
    assert timeline.unowned == (0, 8, pytest.approx(8 - pulled))

"""The simulated group: what is known of a running group, what is given, and what is assumed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.model.group import Member
from rmqctl.model.sample import ClientSample
from rmqctl.protocol.versions import version_ordinal
from rmqctl.rules.allocate.averagely import allocate_averagely
from rmqctl.whatif.churn.group import churn_group, client_timing
from rmqctl.whatif.churn.timing import JAVA_4_9, JAVA_5_0, JAVA_5_2, RMQCTL, ClientTiming
from rmqctl.whatif.group_snapshot import GroupSnapshot, LiveGroup, SnapshotMember
from rmqctl.whatif.sized_group import shape

SIZE = shape(2, 2, 2)


@pytest.mark.parametrize(
    ("language", "version", "timing"),
    [
        ("JAVA", (4, 9, 7), JAVA_4_9), ("JAVA", (5, 1, 4), JAVA_5_0), ("JAVA", (5, 4, 0), JAVA_5_2),
        ("PYTHON", (5, 3, 1), RMQCTL), ("GO", (4, 9, 7), JAVA_5_2),
    ],
)  # fmt: skip
def test_a_client_acts_as_its_version_does(language: str, version: tuple[int, int, int], timing: ClientTiming) -> None:
    assert client_timing(ClientSample(language, version_ordinal(*version))) is timing


def _live(**changes: object) -> GroupSnapshot:
    member = SnapshotMember(frozenset(), "averagely", frozenset({"topic"}), False, consume_rt_ms=40.0)
    live = LiveGroup(
        "G", {"client-1": member, "client-2": replace(member, consume_rt_ms=20.0)}, (), {}, {},
        dict.fromkeys(SIZE.queues, 2.5), None, None, None, {},
        connections={
            "client-1": Member("client-1", "127.0.0.1:1", "JAVA", version_ordinal(4, 9, 7)),
            "client-2": Member("client-2", "127.0.0.1:2", "PYTHON", version_ordinal(5, 4, 0)),
        },
    )  # fmt: skip
    return replace(SIZE, live=replace(live, **changes))


def test_a_running_group_is_simulated_as_its_members_report() -> None:
    group = churn_group(_live(), allocate_averagely)
    assert group.rates == dict.fromkeys(SIZE.queues, 2.5)
    assert (group.consume_ms, group.commit_every_ms) == (30.0, 5000.0)
    assert group.timings == {"client-1": JAVA_4_9, "client-2": RMQCTL}
    assert group.topics == dict.fromkeys(SIZE.client_ids, frozenset({"topic"}))


def test_a_member_that_consumed_nothing_does_not_count_for_the_time_of_the_listener() -> None:
    live = _live().live
    assert live is not None
    members = live.members | {"client-2": replace(live.members["client-2"], consume_rt_ms=None)}
    assert churn_group(_live(members=members), allocate_averagely).consume_ms == 40.0
    idle = {client_id: replace(member, consume_rt_ms=None) for client_id, member in members.items()}
    assert churn_group(_live(members=idle), allocate_averagely).consume_ms == 10.0


def test_a_recorded_group_is_simulated_as_its_clients_reported() -> None:
    clients = {
        "client-1": ClientSample("JAVA", version_ordinal(4, 9, 7), is_orderly=True, consume_rt_ms=8.0),
        "client-2": ClientSample("PYTHON", version_ordinal(5, 4, 0)),
    }
    group = churn_group(SIZE, allocate_averagely, clients=clients)
    assert (group.consume_ms, group.is_orderly) == (8.0, True)
    assert group.timings == {"client-1": JAVA_4_9, "client-2": RMQCTL}


def test_given_values_replace_those_of_the_group() -> None:
    group = churn_group(_live(), allocate_averagely, rate=8.0, consume_ms=5.0, commit_every_ms=1000.0, timing=JAVA_5_0)
    assert set(group.rates.values()) == {2.0}
    assert (group.consume_ms, group.commit_every_ms, group.timing, group.timings) == (5.0, 1000.0, JAVA_5_0, {})


def test_without_a_group_its_rate_is_unknown() -> None:
    group = churn_group(SIZE, allocate_averagely)
    assert (group.rates, group.consume_ms) == ({}, 10.0)
    assert churn_group(_live(put_rates=None), allocate_averagely).rates == {}

"""The shipped plugin rooms_first.py."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.plugin import AllocationError, Assignment, MessageQueue
from rmqctl.plugin.loader import load_plugins, site_resolvers, strategies
from rmqctl.rules.allocate import Options, find_strategy
from rmqctl.whatif.group_snapshot import share_all
from rmqctl.whatif.spec import parse_spec
from tests.plugin.counted_text import Counted

FILE = Path(__file__).parent.parent.parent / "plugins" / "rooms_first.py"
_MANAGER = load_plugins([str(FILE)], {})
rooms_first = strategies(_MANAGER)["rooms-first"]
zone_suffix = site_resolvers(_MANAGER)["zone-suffix"]

_NAMES = st.builds("{}-{}".format, st.sampled_from(("east", "west", "north")), st.text("abc", min_size=1, max_size=3))
_QUEUES = st.lists(
    st.builds(MessageQueue, st.just("T"), _NAMES, st.integers(0, 9)), min_size=1, max_size=40, unique=True
)
_CLIENTS = st.lists(_NAMES, min_size=1, max_size=12, unique=True)
_MAX_SHARES = st.sampled_from((1, 1.1, 1.5, 2.0, 1e300, 10**400))


def _queues(broker_name: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("T", broker_name, queue_id) for queue_id in range(count)]


def _counts(assignment: Assignment) -> dict[str, int]:
    return {client_id: len(share) for client_id, share in assignment.items()}


@given(queues=_QUEUES, clients=_CLIENTS, max_share=_MAX_SHARES)
def test_every_queue_has_one_owner_and_nobody_carries_more_than_the_bound(
    queues: list[MessageQueue], clients: list[str], max_share: float
) -> None:
    assignment = rooms_first(queues, clients, {"maxShare": max_share})
    assert Counter(chain.from_iterable(assignment.values())) == Counter(queues)
    assert sorted(assignment) == sorted(clients)
    fair = Fraction(len(queues), len(clients))
    assert max(_counts(assignment).values()) <= max(ceil(fair), fair * Fraction(max_share))


@given(queues=_QUEUES, clients=_CLIENTS, max_share=_MAX_SHARES, data=st.data())
def test_the_order_in_which_they_come_does_not_matter(
    queues: list[MessageQueue], clients: list[str], max_share: float, data: st.DataObject
) -> None:
    options = {"maxShare": max_share}
    shuffled = data.draw(st.permutations(queues)), data.draw(st.permutations(clients))
    assert rooms_first(queues, sorted(clients), options) == rooms_first(*shuffled, options)


@given(queues=_QUEUES, clients=_CLIENTS)
def test_without_a_bound_rooms_keep_their_queues_and_share_them_evenly(
    queues: list[MessageQueue], clients: list[str]
) -> None:
    assignment = rooms_first(queues, clients, {"maxShare": 10**6})
    rooms = {client_id.partition("-")[0] for client_id in clients}
    for client_id, share in assignment.items():
        for queue in share:
            room = queue.broker_name.partition("-")[0]
            assert room == client_id.partition("-")[0] or room not in rooms
    if rooms >= {queue.broker_name.partition("-")[0] for queue in queues}:
        for room in rooms:
            counts = [count for client_id, count in _counts(assignment).items() if client_id.startswith(room)]
            assert max(counts) - min(counts) <= 1


@given(queues=_QUEUES, clients=_CLIENTS, max_share=_MAX_SHARES)
def test_a_queue_leaves_its_room_only_when_the_room_is_full(
    queues: list[MessageQueue], clients: list[str], max_share: float
) -> None:
    assignment = rooms_first(queues, clients, {"maxShare": max_share})
    fair = Fraction(len(queues), len(clients))
    limit = max(ceil(fair), int(min(max_share, len(clients)) * len(queues) / len(clients)))
    away = {
        queue.broker_name.partition("-")[0]
        for client_id, share in assignment.items()
        for queue in share
        if queue.broker_name.partition("-")[0] != client_id.partition("-")[0]
    }
    for room in away:
        own = [count for client_id, count in _counts(assignment).items() if client_id.startswith(room)]
        assert all(count == limit for count in own)


def test_a_room_that_lost_its_clients_is_not_overrun() -> None:
    queues = _queues("east-b", 30) + _queues("west-b", 30)
    ids = ["east-1", "west-1", "west-2", "west-3", "west-4", "west-5"]
    nearby = find_strategy("machine-room-nearby").allocate(queues, ids)
    assert _counts(nearby)["east-1"] == 30
    assert _counts(rooms_first(queues, ids, {})) == {"east-1": 15, **dict.fromkeys(ids[1:], 9)}
    assert _counts(rooms_first(queues, ids, {"maxShare": 1.0})) == dict.fromkeys(ids, 10)
    # What stays is what the room had first.
    assert rooms_first(queues, ids, {})["east-1"] == queues[:15]


def test_rooms_can_stand_in_a_table_or_behind_the_last_dot() -> None:
    queues = _queues("b1", 2) + _queues("b2", 2)
    table = {"b1": "east", "b2": "west", "10.0.0.1@x": "west", "10.0.0.2@x": "east"}
    assert rooms_first(queues, ["10.0.0.1@x", "10.0.0.2@x"], {"siteOf": table}) == {
        "10.0.0.1@x": queues[2:], "10.0.0.2@x": queues[:2],
    }  # fmt: skip
    queues = _queues("b.east", 2) + _queues("b.west", 2)
    ids = ["10.0.0.1@c.west", "10.0.0.2@c.east"]
    expected = {ids[0]: queues[2:], ids[1]: queues[:2]}
    assert rooms_first(queues, ids, {"siteOf": "zone-suffix"}) == expected
    # The same rooms, by RocketMQ's strategy and the resolver.
    sites: dict[str, Any] = {
        f"{kind}_site": lambda name, kind=kind: zone_suffix(kind, name) for kind in ("broker", "client")
    }
    assert find_strategy("machine-room-nearby", Options(**sites)).allocate(queues, ids) == expected


@pytest.mark.parametrize(
    ("kind", "name", "room"),
    [
        ("broker", "broker-a.east", "east"),
        ("broker", "a.b.east", "east"),
        ("broker", "broker-a", None),
        ("broker", "broker-a.", None),
        ("client", "10.0.0.7@c1.east", "east"),
        ("client", "10.0.0.7@c1.east@unit.x@STREAM", "east"),
        ("client", "10.0.0.7@28644#18276359680804", None),
        ("client", "10.0.0.7@28644#18276359680804@STREAM", None),
        ("client", "c1.east", "east"),
    ],
)
def test_the_zone_is_what_stands_behind_the_last_dot(kind: str, name: str, room: str | None) -> None:
    assert zone_suffix(kind, name) == room


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxShare": 0.9}, r"maxShare 0\.9\."),
        ({"maxShare": "2"}, r"maxShare '2'"),
        ({"maxShare": True}, "maxShare True"),
        ({"maxShare": float("nan")}, "maxShare nan"),
        ({"maxShare": float("inf")}, "maxShare inf"),
        ({"maxshare": 2}, "option 'maxshare' for rooms-first"),
        ({"siteOf": ""}, "siteOf ''"),
        ({"siteOf": 3}, "siteOf 3"),
        ({"siteOf": {"b-1": "east"}}, "room of client c-1"),
        ({"siteOf": {"b-1": "east", "c-1": 3}}, "room of client c-1"),
        ({"siteOf": "zone-suffix"}, "room of client c-1"),
    ],
)
def test_what_it_refuses_is_said(options: dict[str, Any], says: str) -> None:
    with pytest.raises(AllocationError, match=says) as caught:
        rooms_first(_queues("b-1", 1), ["c-1"], options)
    assert caught.value.hint is not None or "room of client" in says


def test_the_example_in_its_docstring_does_what_it_says() -> None:
    match = re.search(r"echo '(.*?)' \|\n\s+rmqctl (.*)", FILE.read_text(), re.DOTALL)
    assert match is not None
    assert match[2].startswith("whatif allocate --spec - --strategy rooms-first --plugin plugins/rooms_first.py\n")
    (item,) = parse_spec(match[1].encode())
    strategy = find_strategy("rooms-first", item.options, strategies(_MANAGER))
    assignment = share_all(item.snapshot, strategy)
    east = [MessageQueue("orders", "east-broker", queue_id) for queue_id in range(3)]
    assert assignment == {"east-c1": east[:2], "west-c1": [east[2], MessageQueue("orders", "west-broker", 0)]}


def test_100_000_queues_are_shared_without_comparing_each_with_each() -> None:
    queues = [
        MessageQueue("T", Counted(f"{room}-{number:03}"), queue_id)
        for room in ("east", "west")
        for number in range(100)
        for queue_id in range(500)
    ]
    Counted.count = 0
    ids = [f"{'east' if number < 1000 else 'west'}-{number:05}" for number in range(10_000)]
    counts = _counts(rooms_first(queues, ids, {}))
    assert (max(counts.values()), sum(counts.values())) == (15, 100_000)

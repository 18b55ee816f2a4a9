"""The first message since a time, against queues of which every message is known, whatever the broker's search says."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.admin.messages import time_search
from rmqctl.admin.messages.time_search import OffsetSpan, fetch_cut, fetch_message_at, find_end, find_first_since
from rmqctl.errors import RemoteProtocolError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.rules.store_times import TimeOrder
from tests.admin.cluster import BrokerState
from tests.admin.message_store import NOW_MS, MessageStore, damaged, message_cluster
from tests.protocol.records import Record
from tests.scripted_peer import DROP, V4_9_7, V5_4_0, Reply, ScriptedNetwork, ok, passing, run

_MQ = MessageQueue("T", "broker-a", 0)
# So many messages at most are looked at to see whether times rise.
_LOOKS = 9


@dataclass
class _Queue:
    """One queue: (offset, store time) of each message in order, some offsets perhaps without one; `hint` answers 29."""

    messages: list[tuple[int, int]]
    min_offset: int
    max_offset: int
    hint: int = 0
    order: TimeOrder = TimeOrder.RISING
    born_ms: dict[int, int] = field(default_factory=dict)  # as old as stored without
    pulled: list[int] = field(default_factory=list)

    def table(self) -> dict[int, Reply]:
        return {Q.SEARCH_OFFSET_BY_TIMESTAMP: lambda _: ok(offset=str(self.hint)), Q.PULL_MESSAGE: self._pull}

    def _pull(self, request: Command) -> Command:
        at = int(request.ext_fields["queueOffset"])
        self.pulled.append(at)
        header = {"minOffset": str(self.min_offset), "maxOffset": str(self.max_offset), "suggestWhichBrokerId": "0"}
        if at < self.min_offset:
            return Command(R.PULL_OFFSET_MOVED, {**header, "nextBeginOffset": str(self.min_offset)})
        if at >= self.max_offset:
            code = R.PULL_NOT_FOUND if at == self.max_offset else R.PULL_OFFSET_MOVED
            return Command(code, {**header, "nextBeginOffset": str(self.max_offset)})
        place = bisect_left(self.messages, (at, 0))
        if place == len(self.messages):
            # The rest is there in the queue's index only.
            return Command(R.PULL_RETRY_IMMEDIATELY, {**header, "nextBeginOffset": str(self.max_offset)})
        count = min(int(request.ext_fields["maxMsgNums"]), len(self.messages) - place)
        found = [self.messages[each] for each in range(place, place + count)]
        records = [
            Record(queue_id=0, queue_offset=each, stored_at_ms=ms, born_at_ms=self.born_ms.get(each, ms), topic=b"T")
            for each, ms in found
        ]
        return Command(
            R.SUCCESS, {**header, "nextBeginOffset": str(found[-1][0] + 1)}, b"".join(map(Record.encode, records))
        )

    def find(self, at_ms: int, min_offset: int | None = None, max_offset: int | None = None) -> int | None:
        """Return what is found, with the bounds as they were read before."""
        low = self.min_offset if min_offset is None else min_offset
        high = self.max_offset if max_offset is None else max_offset
        network = ScriptedNetwork()
        network.add("a:1", self.table())

        async def scenario() -> int | None:
            async with network.client("ns:1") as client:
                message, self.order = await find_first_since(client, "a:1", _MQ, at_ms, low, high)
                return None if message is None else message.queue_offset

        return run(scenario())

    def cut(self, since_ms: int, until_ms: int) -> OffsetSpan:
        """Return where a span of time begins and ends."""
        network = ScriptedNetwork()
        network.add("a:1", {**self.table(), Q.SEARCH_OFFSET_BY_TIMESTAMP: self._search})

        async def scenario() -> OffsetSpan:
            async with network.client("ns:1") as client:
                bounds = self.min_offset, self.max_offset
                return await fetch_cut(client, "a:1", _MQ, bounds, since_ms=since_ms, until_ms=until_ms)

        return run(scenario())

    def end(self, at_ms: int) -> OffsetSpan:
        """Return where the messages before a time end."""
        network = ScriptedNetwork()
        network.add("a:1", self.table())

        async def scenario() -> OffsetSpan:
            async with network.client("ns:1") as client:
                return await find_end(client, "a:1", _MQ, at_ms, self.min_offset, self.max_offset)

        return run(scenario())

    def _search(self, request: Command) -> Command:
        at_ms = int(request.ext_fields["timestamp"])
        return ok(offset=str(self.min_offset + bisect_left([each for _, each in self.messages], at_ms)))

    def expected(self, at_ms: int) -> int | None:
        return next((offset for offset, stored_at_ms in self.messages if stored_at_ms >= at_ms), None)


def _queue(times: list[int], *, first: int = 0, gaps: dict[int, int] | None = None, hint: int = 0) -> _Queue:
    """Return a queue of messages at these times; `gaps` are offsets that are left out before a message."""
    messages, offset = [], first
    for number, at_ms in enumerate(times):
        offset += (gaps or {}).get(number, 0)
        messages.append((offset, at_ms))
        offset += 1
    return _Queue(messages, first, offset, hint)


@given(
    st.lists(st.integers(0, 5), max_size=60), st.integers(0, 2**40), st.data(),
    st.dictionaries(st.integers(0, 59), st.integers(1, 9), max_size=5),
)  # fmt: skip
def test_it_is_the_first_message_then_or_later_whatever_the_brokers_search_says(
    steps: list[int], first: int, data: st.DataObject, gaps: dict[int, int]
) -> None:
    times, now_ms = [], 1000
    for step in steps:
        now_ms += step  # equal times, and holes of some ms
        times.append(now_ms)
    queue = _queue(times, first=first, gaps=gaps)
    queue.hint = data.draw(st.integers(-1, queue.max_offset + 2) | st.integers(-(2**63), 2**63 - 1), label="hint")
    at_ms = data.draw(st.integers(990, now_ms + 10), label="at_ms")
    assert queue.find(at_ms) == queue.expected(at_ms)
    assert queue.order is TimeOrder.RISING
    # There and back in steps that double, and once more by halves; then a look at what is before.
    assert len(queue.pulled) <= 2 * max(queue.max_offset - first, 1).bit_length() + 3 + _LOOKS


@pytest.mark.parametrize("hint", [-1, 0, 1, 400_000, 999_998, 999_999, 1_000_000, 2**62])
@pytest.mark.parametrize("wanted", [0, 1, 2, 500_001, 999_998, 999_999, 1_000_000])
def test_a_long_queue_costs_few_pulls(hint: int, wanted: int) -> None:
    class _Million(list[tuple[int, int]]):
        """A million messages, a ms apart, made when they are looked at."""

        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, place: int) -> tuple[int, int]:  # type: ignore[override]
            return place, place

    queue = _Queue(_Million(), 0, 1_000_000, hint)
    assert queue.find(wanted) == (wanted if wanted < 1_000_000 else None)
    assert len(queue.pulled) <= 42 + _LOOKS
    if abs(hint - wanted) <= 1:
        assert len(queue.pulled) <= 4 + _LOOKS


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_what_real_brokers_answer_is_put_right(version: int) -> None:
    # 4.9 answers the nearer neighbour, any of several at one ms, and the last one for what is later.
    times = [0, 102, 204, 306, 407, 408, 408, 408, 900]
    for at_ms in (*range(-2, 3), 100, 101, 102, 103, 153, 154, 306, 407, 408, 409, 600, 899, 900, 901, 5000):
        state = BrokerState("broker-a", version)
        store = MessageStore(state)
        for each in times:
            store.put("T", 0, at_ms=NOW_MS + each)
        cluster = message_cluster(store)

        async def scenario(at_ms: int = at_ms, cluster: object = cluster) -> int | None:
            async with cluster.client() as client:  # type: ignore[attr-defined]
                found, _ = await find_first_since(client, "a:1", _MQ, NOW_MS + at_ms, 0, len(times))
                return None if found is None else found.queue_offset

        expected = next((number for number, each in enumerate(times) if each >= at_ms), None)
        assert run(passing(cluster.clock, scenario())) == expected, at_ms


@pytest.mark.parametrize("hint", [0, 69, 70, 99, 100])
def test_messages_that_retention_deleted_meanwhile_do_not_end_the_search(hint: int) -> None:
    """The bounds were read before: what is gone since must not be taken for the end of the queue."""
    queue = _queue([1000 + number for number in range(100)], hint=hint)
    queue.messages, queue.min_offset = queue.messages[70:], 70
    for wanted, expected in ((0, 70), (1000, 70), (1069, 70), (1070, 70), (1071, 71), (1099, 99), (1100, None)):
        queue.pulled.clear()
        assert queue.find(wanted, min_offset=0) == expected
        assert len(queue.pulled) <= 20 + _LOOKS


def test_a_queue_that_lost_all_its_messages_meanwhile_has_none() -> None:
    assert _Queue([], 100, 100, 50).find(1000, min_offset=0, max_offset=100) is None


def test_messages_that_come_meanwhile_do_not_count() -> None:
    queue = _queue([1000, 1001, 1002, 1003], hint=3)
    assert queue.find(1003, max_offset=3) is None
    assert queue.find(1002, max_offset=3) == 2


@pytest.mark.parametrize("bounds", [(0, 0), (70, 70), (5, 3)])
def test_nobody_is_asked_for_an_empty_queue(bounds: tuple[int, int]) -> None:
    queue = _Queue([], *bounds)
    assert queue.find(5) is None
    assert queue.pulled == []


@pytest.mark.parametrize("at_ms", [-(2**63), -1, 0])
def test_before_all_times_it_is_the_first(at_ms: int) -> None:
    queue = _queue([1000, 2000], first=7, hint=7)
    assert queue.find(at_ms) == 7
    assert len(queue.pulled) == 1


def test_a_negative_time_is_not_sent_since_brokers_take_it_for_the_end() -> None:
    network = ScriptedNetwork()
    server = network.add("a:1", _queue([1000]).table())

    async def scenario() -> None:
        async with network.client("ns:1") as client:
            await find_first_since(client, "a:1", _MQ, -5, 0, 1)

    run(scenario())
    (asked,) = [request for request in server.asked if request.code == Q.SEARCH_OFFSET_BY_TIMESTAMP]
    assert asked.ext_fields == {"topic": "T", "queueId": "0", "timestamp": "0"}


# Where a clock was set back


@given(st.lists(st.integers(0, 9), max_size=32), st.integers(-1, 10), st.integers(-1, 10), st.integers(0, 33))
def test_of_a_short_queue_every_order_of_times_is_right(times: list[int], since: int, until: int, hint: int) -> None:
    queue = _queue(times, first=7, hint=7 + hint)
    expected = queue.expected(since)
    assert queue.find(since) == expected
    assert queue.order is not TimeOrder.HALVED
    if queue.order is TimeOrder.RISING:
        before = times if expected is None else times[: expected - 7]
        assert before == sorted(before)
    assert len(queue.pulled) <= 14 + 3
    older = [offset for offset, at_ms in queue.messages if at_ms < until]
    assert queue.end(until).end_offset == (older[-1] + 1 if older else 7)
    inside = [offset for offset, at_ms in queue.messages if since <= at_ms <= until]
    cut = queue.cut(since, until)
    assert all(cut.first_offset <= offset < cut.end_offset for offset in inside)


def _jumps(count: int, *jumps: tuple[int, int]) -> list[int]:
    """Return times a second apart, that go on from others at some places."""
    times, now_ms = [], 0
    back = dict(jumps)
    for number in range(count):
        now_ms += 1000 + back.get(number, 0)
        times.append(now_ms)
    return times


_HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("times", "at_ms"),
    [
        # Back by an hour for good, and for ten minutes; twice; far back; ahead by a day for ten minutes.
        (_jumps(20_000, (10_000, -_HOUR_MS)), 7_000_000),
        (_jumps(20_000, (10_000, -_HOUR_MS), (10_600, _HOUR_MS)), 9_500_000),
        (_jumps(20_000, (6_000, -_HOUR_MS), (12_000, -_HOUR_MS)), 5_000_000),
        (_jumps(20_000, (19_000, -5 * _HOUR_MS)), 1_500_000),
        (_jumps(20_000, (10_000, 24 * _HOUR_MS), (10_600, -24 * _HOUR_MS)), 10_700_000),
    ],
)
def test_of_a_long_queue_that_is_seen_to_go_back_the_first_one_is_found_by_reading(
    times: list[int], at_ms: int
) -> None:
    places = [at for at in range(1, len(times)) if times[at - 1] < at_ms <= times[at]]
    queue = _queue(times, hint=places[-1])
    assert queue.find(at_ms) == places[0]
    assert queue.order is TimeOrder.READ
    assert len(queue.pulled) <= 200
    queue = _queue(times, hint=places[0])
    assert queue.end(at_ms) == OffsetSpan(0, places[-1], TimeOrder.READ)
    assert len(queue.pulled) <= 200


@pytest.mark.parametrize("at_ms", range(10_000_000 - _HOUR_MS + 1_000, 10_000_000, 199_000))
def test_a_clock_that_was_set_back_is_found_by_the_producers_clocks(at_ms: int) -> None:
    """Where the times overlap most messages are in order with those that a search looks at."""
    queue = _queue(_jumps(100_000, (10_000, -_HOUR_MS)))
    queue.hint = bisect_left([each for _, each in queue.messages], at_ms)
    queue.born_ms = {number: number * 1000 for number in range(100_000)}
    assert queue.find(at_ms) == queue.expected(at_ms)
    assert len(queue.pulled) <= 120


def test_what_is_too_much_to_read_is_halved_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_search, "MOST_READ_COUNT", 300)
    times = _jumps(20_000, (10_000, -_HOUR_MS))
    queue = _queue(times, hint=bisect_left(times, 7_000_000))
    found = queue.find(7_000_000)
    assert found is not None
    assert times[found - 1] < 7_000_000 <= times[found]
    assert queue.order is TimeOrder.HALVED


def _fails(reply: Callable[[MessageStore], None]) -> type[Exception]:
    store = MessageStore(BrokerState("broker-a"))
    for _ in range(3):
        store.put("T", 0)
    reply(store)
    cluster = message_cluster(store)

    async def scenario() -> None:
        async with cluster.client() as client:
            await find_first_since(client, "a:1", _MQ, NOW_MS, 0, 3)

    with pytest.raises((RemoteProtocolError, UnreachableError)) as caught:
        run(passing(cluster.clock, scenario()))
    return caught.type


def test_a_message_that_can_not_be_read_is_an_error_and_no_guess() -> None:
    def damage(store: MessageStore) -> None:
        message = store.queues["T", 0][0]
        message.record = damaged(message.record)

    assert _fails(damage) is RemoteProtocolError


def test_a_broker_that_breaks_off_is_an_error_and_no_guess() -> None:
    network = ScriptedNetwork()
    network.add("a:1", {Q.SEARCH_OFFSET_BY_TIMESTAMP: ok(offset="1"), Q.PULL_MESSAGE: DROP})

    async def scenario() -> None:
        async with network.client("ns:1") as client:
            await find_first_since(client, "a:1", _MQ, 5, 0, 3)

    with pytest.raises(UnreachableError):
        run(passing(network.clock, scenario()))  # type: ignore[arg-type]


def test_a_search_that_answers_no_number_is_an_error() -> None:
    network = ScriptedNetwork()
    network.add("a:1", {Q.SEARCH_OFFSET_BY_TIMESTAMP: ok(offset="x")})

    async def scenario() -> None:
        async with network.client("ns:1") as client:
            await find_first_since(client, "a:1", _MQ, 5, 0, 3)

    with pytest.raises(RemoteProtocolError):
        run(scenario())


@pytest.mark.parametrize(("at", "found"), [(0, 3), (3, 3), (4, 6), (6, 6), (7, None), (8, None), (99, None)])
def test_the_message_at_an_offset_is_the_next_one_that_is_there(at: int, found: int | None) -> None:
    # 0 to 2 are deleted, 4, 5 and 7 have none.
    queue = _Queue([(3, 1000), (6, 1001)], 3, 8)
    network = ScriptedNetwork()
    network.add("a:1", queue.table())

    async def scenario() -> int | None:
        async with network.client("ns:1") as client:
            message = await fetch_message_at(client, "a:1", _MQ, at)
            return None if message is None else message.queue_offset

    assert run(scenario()) == found


def test_nothing_is_asked_under_a_groups_name() -> None:
    queue = _queue([1000, 2000, 3000], hint=2)
    network = ScriptedNetwork()
    server = network.add("a:1", queue.table())

    async def scenario() -> None:
        async with network.client("ns:1") as client:
            await find_first_since(client, "a:1", _MQ, 1500, 0, 3)

    run(scenario())
    pulls = [request for request in server.asked if request.code == Q.PULL_MESSAGE]
    assert pulls
    assert {request.ext_fields["consumerGroup"] for request in pulls} == {"TOOLS_CONSUMER"}
    # No commit, no waiting.
    assert {request.ext_fields["sysFlag"] for request in pulls} == {"4"}

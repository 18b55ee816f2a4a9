from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import pytest

from rmqctl.admin.messages import time_search
from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.admin.messages.pull import ALL, Expression, FoundMessage
from rmqctl.admin.messages.search import MessageSearch, check_sql
from rmqctl.admin.messages.spans import fetch_spans
from rmqctl.admin.topics.queues import chosen_queues, fetch_route, parse_queue_choice
from rmqctl.errors import BrokerError, NotFoundError, RmqctlError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.rules.message_filters.tags import parse_tags
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import NOW_MS, MessageStore, damaged, message_cluster
from tests.scripted_peer import SILENCE, V4_9_7, V5_4_0, passing, run

VERSIONS = [V5_4_0, V4_9_7]


class Outcome:
    """What a search gave out, in its order, and said of itself."""

    def __init__(self, found: list[FoundMessage], search: MessageSearch, failures: Sequence[object]) -> None:
        self.found, self.search, self.failures = found, search, [*failures, *search.failures]

    @property
    def places(self) -> list[tuple[str, int, int]]:
        return [(each.mq.broker_name, each.mq.queue_id, each.queue_offset) for each in self.found]

    @property
    def bodies(self) -> list[bytes]:
        return [each.message.body for each in self.found if each.message is not None]


def _search(
    cluster: Cluster,
    wanted: MessageFilter | None = None,
    *,
    topic: str = "T",
    queues: tuple[str, ...] = (),
    expression: Expression = ALL,
    limit: int | None = None,
) -> Outcome:
    wanted = wanted or MessageFilter()

    async def scenario() -> Outcome:
        async with cluster.client() as client:
            route = await fetch_route(client, topic)
            chosen = chosen_queues(route, [parse_queue_choice(text) for text in queues])
            spans, failures = await fetch_spans(
                client, route, chosen, since_ms=wanted.since_ms, until_ms=wanted.until_ms
            )
            search = MessageSearch(client, spans, wanted, expression=expression, limit=limit)
            found: list[FoundMessage] = []
            async with aclosing(search.run()) as batches:
                async for batch in batches:
                    found += batch
            return Outcome(found, search, failures)

    return run(passing(cluster.clock, scenario()))


def _store(version: int = V5_4_0, *, count: int = 100, queue_count: int = 2, name: str = "broker-a") -> MessageStore:
    store = MessageStore(BrokerState(name, version))
    for number in range(count):
        store.put("T", number % queue_count, body=f"{name} m{number}".encode(), at_ms=NOW_MS + number * 10)
    return store


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_is_given_out_once_the_oldest_first(version: int) -> None:
    a, b = _store(version, count=150, queue_count=3), _store(version, count=70, name="broker-b")
    outcome = _search(message_cluster(a, b))
    times = [each.message.stored_at_ms for each in outcome.found if each.message is not None]
    assert times == sorted(times)
    assert len(set(outcome.places)) == len(outcome.places) == 220
    assert (outcome.search.read_count, outcome.search.total_count) == (220, 220)
    assert not outcome.search.is_cut
    assert outcome.failures == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("since", [-5, 0, 1, 4, 5, 6, 9, 10, 495, 985, 990, 991, 2000])
@pytest.mark.parametrize("until", [-1, 0, 3, 6, 10, 500, 990, 2000])
def test_both_ends_of_a_span_belong_to_it_whatever_the_broker_answers(version: int, since: int, until: int) -> None:
    outcome = _search(message_cluster(_store(version)), MessageFilter(since_ms=NOW_MS + since, until_ms=NOW_MS + until))
    expected = [number for number in range(100) if since <= number * 10 <= until]
    assert outcome.bodies == [f"broker-a m{number}".encode() for number in expected]


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_of_one_ms_are_all_found_at_both_ends(version: int) -> None:
    store = MessageStore(BrokerState("broker-a", version))
    for number in range(90):
        store.put("T", 0, body=str(number).encode(), at_ms=NOW_MS + number // 30 * 50)
    outcome = _search(message_cluster(store), MessageFilter(since_ms=NOW_MS + 50, until_ms=NOW_MS + 50))
    assert outcome.bodies == [str(number).encode() for number in range(30, 60)]


def test_only_the_part_that_is_wanted_is_read() -> None:
    store = _store(count=2000, queue_count=1)
    cluster = message_cluster(store)
    outcome = _search(cluster, MessageFilter(since_ms=NOW_MS + 10_000, until_ms=NOW_MS + 10_090))
    assert len(outcome.found) == 10
    assert outcome.search.total_count <= 12
    # Up to 9 messages are looked at on either side, to see whether store times rise.
    assert cluster.servers["broker-a"].codes().count(Q.PULL_MESSAGE) <= 1 + 2 * 9


def test_what_is_written_while_it_is_read_does_not_make_it_endless() -> None:
    store = _store(count=40, queue_count=1)
    cluster = message_cluster(store)
    pull = store.table()[Q.PULL_MESSAGE]

    def grow(request: object) -> object:
        for _ in range(64):
            store.put("T", 0, body=b"late")
        return pull

    cluster.servers["broker-a"].table[Q.PULL_MESSAGE] = grow  # type: ignore[assignment]
    assert len(_search(cluster).found) == 40


def test_deleted_messages_are_passed_over() -> None:
    store = _store(count=60, queue_count=1)
    store.delete_before("T", 0, 50)
    assert [place[2] for place in _search(message_cluster(store)).places] == list(range(50, 60))


def test_a_limit_gives_the_oldest_and_says_that_it_cut() -> None:
    a, b = _store(count=400, queue_count=2), _store(count=400, queue_count=2, name="broker-b")
    outcome = _search(message_cluster(a, b), limit=10)
    assert [body.split()[1] for body in outcome.bodies] == [f"m{n}".encode() for n in range(5) for _ in "ab"]
    assert outcome.search.is_cut
    assert outcome.search.read_count < 800
    outcome = _search(message_cluster(_store(count=10)), limit=10)
    assert (len(outcome.found), outcome.search.is_cut) == (10, False)
    outcome = _search(message_cluster(_store(count=11)), limit=10)
    assert (len(outcome.found), outcome.search.is_cut) == (10, True)


def test_a_queue_far_behind_the_others_in_time_holds_back_no_more_than_a_bounded_number() -> None:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(3000):
        store.put("T", 0, body=b"new", at_ms=NOW_MS + 1_000_000 + number)
    for number in range(3000):
        store.put("T", 1, body=b"old", at_ms=NOW_MS + number)
    cluster = message_cluster(store)
    largest = 0

    async def scenario() -> list[bytes]:
        nonlocal largest
        async with cluster.client() as client:
            route = await fetch_route(client, "T")
            spans, _ = await fetch_spans(client, route, chosen_queues(route, []))
            search = MessageSearch(client, spans, MessageFilter())
            bodies = []
            async for batch in search.run():
                bodies += [each.message.body for each in batch if each.message is not None]
                largest = max(largest, *(len(lane.waiting) for lane in search._lanes))
            return bodies

    assert run(passing(cluster.clock, scenario())) == [b"old"] * 3000 + [b"new"] * 3000
    assert largest <= 256 + 32


def test_a_clock_that_was_set_back_ends_nothing_and_the_queues_order_stays() -> None:
    store, other = MessageStore(BrokerState("broker-a")), _store(count=500, name="broker-b", queue_count=1)
    for number in range(1000):
        store.put("T", 0, body=str(number).encode(), at_ms=NOW_MS + number * 10 - (5000 if number >= 50 else 0))
    outcome = _search(message_cluster(store))
    assert outcome.bodies == [str(number).encode() for number in range(1000)]
    assert outcome.search.unordered == {MessageQueue("T", "broker-a", 0)}
    assert len(_search(message_cluster(store, other)).found) == 1500


def _set_back_twice() -> MessageStore:
    """Return 1,500 messages, a second apart, of which each 500 go over the same minutes."""
    store = MessageStore(BrokerState("broker-a"))
    for number in range(1500):
        store.put("T", 0, body=str(number).encode(), at_ms=NOW_MS + (number % 500) * 1000 + number // 500)
    return store


@pytest.mark.parametrize("since", [0, 100, 300, 499])
@pytest.mark.parametrize("until", [0, 200, 400, 499])
def test_a_span_of_time_that_was_gone_over_again_is_read_as_often(since: int, until: int) -> None:
    wanted = MessageFilter(since_ms=NOW_MS + since * 1000, until_ms=NOW_MS + until * 1000 + 2)
    outcome = _search(message_cluster(_set_back_twice()), wanted)
    assert outcome.bodies == [str(number).encode() for number in range(1500) if since <= number % 500 <= until]
    assert outcome.failures == []


def test_a_span_that_may_be_too_narrow_is_read_and_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_search, "MOST_READ_COUNT", 0)
    wanted = MessageFilter(since_ms=NOW_MS + 100_000, until_ms=NOW_MS + 200_000)
    outcome = _search(message_cluster(_set_back_twice()), wanted)
    assert outcome.bodies
    (failure,) = outcome.failures
    assert "Store times go back" in str(failure)


def test_tags_with_one_hash_are_told_apart() -> None:
    store = MessageStore(BrokerState("broker-a"))
    for number in range(40):
        store.put("T", 0, body=str(number).encode(), tag=("Aa", "BB", "CC")[number % 3])
    wanted = MessageFilter(tags=parse_tags("BB || CC"))
    outcome = _search(message_cluster(store), wanted, expression=Expression("BB || CC"))
    assert outcome.bodies == [str(number).encode() for number in range(40) if number % 3]
    outcome = _search(message_cluster(store), MessageFilter(tags=parse_tags("BB")), expression=Expression("BB"))
    assert outcome.bodies == [str(number).encode() for number in range(40) if number % 3 == 1]


def test_text_and_properties_are_looked_for() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("T", 0, body="grün".encode(), more={"region": "EU"})
    store.put("T", 0, body=b"gr", more={"region": "EUROPE"})
    store.put("T", 0, body="mehr grün".encode(), more={"other": "EU"})
    cluster = message_cluster(store)
    assert len(_search(cluster, MessageFilter(contains="grün".encode())).found) == 2
    assert _search(cluster, MessageFilter(properties=(("region", "EU"),))).places == [("broker-a", 0, 0)]


def test_chosen_queues_alone_are_read() -> None:
    cluster = message_cluster(_store(queue_count=4), _store(queue_count=4, name="broker-b"))
    assert {place[:2] for place in _search(cluster, queues=("broker-a:1-2", "broker-b:3")).places} == {
        ("broker-a", 1),
        ("broker-a", 2),
        ("broker-b", 3),
    }
    assert {place[0] for place in _search(cluster, queues=("broker-b",)).places} == {"broker-b"}
    with pytest.raises(UsageError, match="has no readable queue broker-a:9"):
        _search(cluster, queues=("broker-a:9",))


@pytest.mark.parametrize("text", ["", ":1", "broker-a:", "broker-a:x", "broker-a:3-1", "broker-a:1-", "broker-a:٣"])
def test_what_names_no_queue_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid queue"):
        parse_queue_choice(text)


def test_a_broker_that_is_down_is_named_and_the_others_are_read() -> None:
    cluster = message_cluster(_store(), _store(name="broker-b"))
    cluster.stop("broker-b")
    outcome = _search(cluster)
    assert len(outcome.found) == 100
    assert [failure.broker_name for failure in outcome.failures] == ["broker-b", "broker-b"]  # type: ignore[attr-defined]


def test_a_broker_that_falls_silent_on_the_way_is_named() -> None:
    cluster = message_cluster(_store(), _store(name="broker-b"))
    cluster.servers["broker-b"].table[Q.PULL_MESSAGE] = SILENCE
    outcome = _search(cluster)
    assert {place[0] for place in outcome.places} == {"broker-a"}
    assert {failure.error.name for failure in outcome.failures} == {"TIMED_OUT"}  # type: ignore[attr-defined]


def test_when_nobody_can_be_read_it_is_an_error() -> None:
    cluster = message_cluster(_store())
    cluster.servers["broker-a"].table[Q.PULL_MESSAGE] = SILENCE
    with pytest.raises(RmqctlError) as caught:
        _search(cluster)
    assert caught.value.exit_code == 6


def test_one_unreadable_message_is_shown_as_such_and_ends_nothing() -> None:
    store = _store(count=70, queue_count=1)
    broken = store.queues["T", 0][40]
    broken.record = damaged(broken.record)
    outcome = _search(message_cluster(store))
    assert [place[2] for place in outcome.places] == list(range(70))
    (unreadable,) = [each for each in outcome.found if each.message is None]
    assert unreadable.queue_offset == 40
    assert unreadable.error is not None
    assert "magic" in unreadable.error.sentence
    assert outcome.failures == []


def test_a_body_that_can_not_be_decompressed_counts_as_a_match_of_what_is_looked_for_in_it() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("T", 0, body=b"needle")
    store.put("T", 0, body=b"no zlib at all", sys_flag=0x301)
    store.put("T", 0, body=b"hay")
    outcome = _search(message_cluster(store), MessageFilter(contains=b"needle"))
    assert [place[2] for place in outcome.places] == [0, 1]


def test_a_queue_that_ends_too_early_is_named() -> None:
    store = _store(count=100, queue_count=1)
    cluster = message_cluster(store)
    pull = store.table()[Q.PULL_MESSAGE]
    stuck = Command(R.PULL_NOT_FOUND, {"nextBeginOffset": "32", "minOffset": "0", "maxOffset": "100"})
    cluster.servers["broker-a"].table[Q.PULL_MESSAGE] = lambda request: (
        pull if request.ext_fields["queueOffset"] == "0" else stuck
    )
    outcome = _search(cluster)
    assert len(outcome.found) == 32
    (failure,) = outcome.failures
    assert "up to offset 32, not to its end 100" in failure.error.sentence  # type: ignore[attr-defined]


def test_an_unknown_topic_gets_a_suggestion() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("orders", 0)
    with pytest.raises(NotFoundError, match="Topic ordres does not exist") as caught:
        _search(message_cluster(store), topic="ordres")
    assert caught.value.suggestions == ("orders",)


def _check(cluster: Cluster, sql: str) -> list[str]:
    async def scenario() -> list[str]:
        async with cluster.client() as client:
            failures = await check_sql(client, await fetch_route(client, "T"), sql)
            return [f"{failure.broker_name}: {failure.error.sentence}" for failure in failures]

    return run(passing(cluster.clock, scenario()))


def test_a_wrong_sql_expression_is_refused_before_anything_is_read() -> None:
    store = MessageStore(BrokerState("broker-a"), sql={"TAGS = 'A'": "A"})
    for tag in "ABAB":
        store.put("T", 0, tag=tag)
    cluster = message_cluster(store)
    assert _check(cluster, "TAGS = 'A'") == []
    outcome = _search(cluster, expression=Expression("TAGS = 'A'", "SQL92"))
    assert [place[2] for place in outcome.places] == [0, 2]
    # The trap: a pull takes the wrong one for none.
    assert len(_search(cluster, expression=Expression("TAGS == 'A'", "SQL92")).found) == 4
    with pytest.raises(UsageError, match='Invalid --sql expression "TAGS == \'A\'": Encountered "="'):
        _check(cluster, "TAGS == 'A'")


def test_brokers_without_sql_are_named_and_when_none_has_it_it_is_an_error() -> None:
    a = MessageStore(BrokerState("broker-a"), sql={"x = 1": "A"})
    b = MessageStore(BrokerState("broker-b"))
    for store in (a, b):
        store.put("T", 0)
    (said,) = _check(message_cluster(a, b), "x = 1")
    assert said.startswith("broker-b: broker-b does not filter by SQL: The broker does not support")
    with pytest.raises(BrokerError, match="broker-b does not filter by SQL") as caught:
        _check(message_cluster(b), "x = 1")
    assert "enablePropertyFilter=true" in (caught.value.hint or "")

"""Members that are rmqctl, as mqadmin and rmqctl see them and steer them, beside Java's members of the same group."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumer, OurConsumers, our_consumers, settled_members
from .harness.jars import VERSIONS
from .harness.mqadmin import (
    ClientRow,
    ClientStatus,
    client_ips,
    client_rows,
    client_status,
    consumer_progress,
    direct_results,
)
from .harness.relay import Relay
from .harness.rmqctl import Rmqctl

pytestmark = pytest.mark.timeout(120)

_BROKER = "broker-a"


@pytest.fixture(scope="module", params=VERSIONS)
def pushing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster that leaves resets to the clients, as 4.9 does."""
    settings = {"enablePropertyFilter": "true", "useServerSideResetOffset": "false"}
    folder = tmp_path_factory.mktemp(f"pushing-{request.param}") / "home"
    running = Cluster(request.param, folder, broker_count=2, settings=settings)
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture
def rmqctl(pushing: Cluster) -> Rmqctl:
    return Rmqctl(pushing.namesrv)


@pytest.fixture
def ours(pushing: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(pushing.namesrv, tmp_path / "ours") as made:
        yield made


# What it tells


def _status(cluster: Cluster, group: str, client_id: str, *words: str) -> ClientStatus:
    return client_status(cluster.java.mqadmin("consumerStatus", "-g", group, "-i", client_id, *words))


# What is no setting, what each client has of its own, and what names a class.
_OWN_PROPERTIES = {
    "PROP_CLIENT_VERSION", "PROP_CONSUMER_START_TIMESTAMP", "allocateMessageQueueStrategy", "consumeTimestamp",
    "instanceName", "language", "messageListener",
}  # fmt: skip


def _lasting(queue: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in queue.items() if not name.endswith("Timestamp")}


def test_ours_tells_what_javas_members_tell(pushing: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    """Both consume 10 messages of each of their queues in 20 ms each, and then get stuck."""
    topic = group = "Told"
    pushing.create_topic(topic, queue_count=2)
    java_id = pushing.java.consume(
        "told", group, topic, instance="1java", collect=1, each=20, stuck="stuck", heartbeat=30_000
    )
    member = ours("ours", group, topic, "--instance", "2ours", SLOW="stuck", EACH_S=0.02)
    our_id = member.wait_joined()
    # A retry topic is made by the first heartbeat, and Java asks for its route only later.
    pushing.wait_for_route(f"%RETRY%{group}", 2)
    pushing.java.call("rebalance", id="told")
    settled_members(rmqctl, group, f"%RETRY%{group}", 2)
    before = settled_members(rmqctl, group, topic, 4)
    assert set(before) == {java_id, our_id}
    queues = {f"{broker}:{number}" for broker in pushing.addresses for number in (0, 1)}
    for prefix, count in (("m", 10), ("stuck", 1)):
        for queue in queues:
            pushing.java.produce(topic, count, prefix=prefix, queue=queue)
    wait_until(lambda: len(member.heard("BEGAN")) == 22)
    pushing.java.wait_started("told", 22)
    # Java's client counts every 10 s.
    wait_until(lambda: _status(pushing, group, java_id).rates[topic][3] > 0)
    java, own = (_status(pushing, group, client_id) for client_id in (java_id, our_id))
    java_stacks, own_stacks = (_status(pushing, group, client_id, "-s") for client_id in (java_id, our_id))
    members = settled_members(rmqctl, group, topic, 4)
    described: dict[str, Any] = {}

    def are_stored() -> bool:
        # Members store their offsets every 5 s.
        described.update(rmqctl.items("group", "describe", group)[0])
        return bool(described["lag"] == 4)

    wait_until(are_stored, 60, why=lambda: described)
    rows = client_rows(pushing.java.mqadmin("consumerConnection", "-g", group))
    pushing.java.release("told")

    assert own.sections == java.sections
    # 4.9's clients have fewer settings; none of ours has another value, and ours make none up.
    assert pushing.version == "4.9.7" or own.properties.keys() <= java.properties.keys()
    assert {name for name in own.properties if name.startswith("PROP_")} == {
        name for name in java.properties if name.startswith("PROP_")
    }
    shared = own.properties.keys() & java.properties.keys() - _OWN_PROPERTIES
    differing = {name: (own.properties[name], java.properties[name]) for name in shared}
    assert {name: pair for name, pair in differing.items() if pair[0] != pair[1] and name != "clientIP"} == {}
    assert own.subscriptions == java.subscriptions
    assert {topic, f"%RETRY%{group}"} == {name for name, _, _ in own.subscriptions} == set(own.rates) == set(java.rates)
    for name, count in ((topic, 2), (f"%RETRY%{group}", 1)):
        assert (len(own.held(name)), len(java.held(name)), own.held(name) & java.held(name)) == (count, count, set())
    assert own.offsets.keys() == own.queues.keys()
    every = [*own.queues.values(), *java.queues.values()]
    assert len({tuple(queue) for queue in every}) == 1
    states = [_lasting(status.queues[queue]) for status in (own, java) for queue in status.held(topic)]
    assert states[1:] == states[:-1]
    stuck_at = {"commitOffset": "10", "cachedMsgCount": "1", "cachedMsgMinOffset": "10", "cachedMsgMaxOffset": "10"}
    assert states[0].items() >= stuck_at.items()
    for status in (own, java):
        stamps = [int(queue[f"last{what}Timestamp"][:14]) for queue in status.queues.values() for what in _MOMENTS]
        assert min(stamps) > int(time.strftime("%Y%m%d%H%M%S", time.localtime(time.time() - 90)))
        pull_rt, pull_tps, consume_rt, ok_tps, failed_tps, failed_count = status.rates[topic]
        # 20 messages, and two that are stuck, in what a minute is to each: its first one may be but some seconds long.
        assert pull_rt > 0
        assert 20 / 75 < ok_tps <= pull_tps < 10
        assert 20 <= consume_rt < 100
        assert (failed_tps, failed_count) == (0, 0)

    # Where the stuck threads are, when that is asked for.
    assert "Consumer jstack" not in own.sections
    assert own_stacks.sections == java_stacks.sections == (*java.sections, "Consumer jstack")
    assert len(re.findall(r"^ConsumeMessageThread_\S+ +TID: \d+ STATE: \w+", own_stacks.stacks, re.MULTILINE)) >= 2
    assert len(re.findall(r"^ConsumeMessageThread_\S+ +listener\.consume\(listener\.py:", own_stacks.stacks, re.M)) == 2
    assert (
        len(re.findall(r"^ConsumeMessageThread_.*Workbench\.handle\(Workbench\.java:", java_stacks.stacks, re.M)) == 2
    )

    # The same by rmqctl, and by the brokers.
    mine, theirs = members[our_id], members[java_id]
    alike = (
        "brokerNames", "unseenAt", "isIdShared", "consumeType", "messageModel", "isOrderly", "queueCount",
        "cachedMsgCount", "popUnackedCount", "strategy", "consumeThreadMax", "nameServers", "reasons",
    )  # fmt: skip
    assert {name: mine[name] for name in alike} == {name: theirs[name] for name in alike}
    assert (mine["strategy"], mine["cachedMsgCount"], mine["queueCount"]) == ("averagely", 2, 3)
    assert set(mine["queues"]) == set(own.queues)
    assert set(theirs["queues"]) == set(java.queues)
    assert abs(mine["startTimestamp"] - theirs["startTimestamp"]) < 60_000
    # Versions of two libraries are never alike.
    codes = [finding["code"] for finding in described["findings"]]
    assert (described["memberCount"], described["strategies"], codes) == (2, ["averagely"], ["MEM005"])
    assert set(rows) == {our_id, java_id}
    assert (rows[our_id].language, rows[our_id].version) == ("PYTHON", own.properties["PROP_CLIENT_VERSION"])
    assert rows[our_id].address in {address for at in mine["clientAddrs"].values() for address in at}

    # Whose queue is whose, and what is stored of it; ours stores first after 10 s.
    expected = {queue: our_id.partition("@")[0] for queue in own.queues}
    expected |= {queue: java_id.partition("@")[0] for queue in java.queues}
    printed: list[str] = []

    def are_stored() -> bool:
        printed.append(pushing.java.mqadmin("consumerProgress", "-g", group, "-s", "true"))
        ips = client_ips(printed[-1])
        return {queue for queue in ips if queue.startswith(f"{topic}@")} == {f"{topic}@{queue}" for queue in queues}

    wait_until(are_stored, why=lambda: printed[-1])
    ips = client_ips(printed[-1])
    assert ips == {queue: expected[queue] for queue in ips}
    stored = consumer_progress(pushing.java.mqadmin("consumerProgress", "-g", group))
    assert [
        row[3:] for row in stored if row.topic == topic and f"{topic}@{row.broker_name}:{row.queue_id}" in own.queues
    ] == [(11, 10, 1)] * 2
    pushing.java.stop("told")


_MOMENTS = ("Pull", "Consume", "Lock")


# One message


def test_a_message_is_consumed_directly_as_by_javas_members(
    pushing: Cluster, rmqctl: Rmqctl, ours: OurConsumers
) -> None:
    """What the listener makes of each of four messages of a topic that the group does not even consume (309)."""
    group, topic, other = "Direct", "Direct", "DirectOther"
    pushing.create_topic(topic, queue_count=2)
    pushing.create_topic(other, queue_count=2, brokers=(_BROKER,))
    listener = {"fail": "bad", "raise": "boom", "nothing": "none"}
    java_id = pushing.java.consume("direct", group, topic, instance="1java", heartbeat=1000, collect=1, **listener)
    member = ours(
        "ours", group, topic, "--instance", "2ours", FAIL="bad", FAIL_BELOW=99, RAISE="boom", NOTHING="none"
    )  # fmt: skip
    our_id = member.wait_joined()
    settled_members(rmqctl, group, topic, 4)
    queue = f"{_BROKER}:1"
    prefixes = ("good", "bad", "boom", "none")
    ids = [pushing.java.produce(other, 1, prefix=prefix, queue=queue).split("\t")[1] for prefix in prefixes]
    # 4.9's takes no topic: there an id tells the broker, and is looked up in its log.
    words = () if pushing.version == "4.9.7" else ("-t", other)
    told = {
        client_id: direct_results(
            pushing.java.mqadmin("queryMsgById", *words, "-i", ",".join(ids), "-g", group, "-d", client_id)
        )
        for client_id in (java_id, our_id)
    }
    own, java = told[our_id], told[java_id]
    assert [each[:3] for each in own] == [each[:3] for each in java]
    assert [each.result for each in own] == ["CR_SUCCESS", "CR_LATER", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"]
    assert {(each.order, each.auto_commit) for each in own} == {("false", "true")}
    # Which error, what it says and where it was raised; nothing where none was.
    assert [each.remark == "null" for each in own] == [each.remark == "null" for each in java]
    for each in (own[2], java[2]):
        assert re.fullmatch(r"[\w.]+(Error|Exception): raised at boom0, \w+\.\w+\(\w+\.(java|py):\d+\)", each.remark)
    given = [(each.body, each.reconsume_times, each.queue) for each in member.heard("BEGAN")]
    by_java = [each[:3] for each in pushing.java.attempts("direct")]
    if pushing.version == "4.9.7":
        # That client leaves the broker's name out.
        by_java = [(body, times, at.replace("null:", f"{_BROKER}:")) for body, times, at in by_java]
    assert given == by_java
    assert given == [(f"{prefix}0", 0, queue) for prefix in prefixes]
    assert {each.topic for each in member.heard("BEGAN")} == {other}
    # Nothing is stored of it, and nothing sent back.
    assert other not in {row["topic"] for row in rmqctl.items("offset", "show", group)}
    pushing.java.stop("direct")


def test_offsets_in_memory_are_told_as_by_javas_members(pushing: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    """Before they are stored; the broker asks all members (223)."""
    topic = group = "Memory"
    pushing.create_topic(topic, queue_count=2)
    java_id = pushing.java.consume("memory", group, topic, instance="1java", heartbeat=1000)
    member = ours("ours", group, topic, "--instance", "2ours")
    our_id = member.wait_joined()
    held = {client_id: item["queues"] for client_id, item in settled_members(rmqctl, group, topic, 4).items()}
    sent = {f"{broker}:{number}": at for at, (broker, number) in enumerate(_every_queue(pushing), 3)}
    for queue, count in sent.items():
        pushing.java.produce(topic, count, queue=queue)
    wait_until(
        lambda: len(member.heard()) + int(pushing.java.call("consumed", id="memory")) == sum(sent.values()), 40,
        lambda: (len(member.heard()), pushing.java.call("consumed", id="memory"), member.said),
    )  # fmt: skip
    expected = [
        f"{client_id}\t{queue}\t{count}"
        for client_id in (java_id, our_id)
        for queue, count in sent.items()
        if f"{topic}@{queue}" in held[client_id]
    ]

    def rows(**words: str) -> list[str]:
        return pushing.java.call("consume-status", group=group, topic=topic, **words).splitlines()

    # A message counts as consumed a moment after its listener said so.
    wait_until(lambda: rows() == sorted(expected), why=rows)
    for client_id in (java_id, our_id):
        assert rows(client=client_id) == sorted(row for row in expected if row.startswith(client_id))
    pushing.java.stop("memory")


def _every_queue(cluster: Cluster) -> list[tuple[str, int]]:
    return [(broker, number) for broker in cluster.addresses for number in (0, 1)]


# What members want


def _analysis(cluster: Cluster, group: str) -> str:
    """Return what consumerStatus makes of two members, below the table of them."""
    found: list[str] = []

    def has_both() -> bool:
        # It leaves out those that do not answer it, such as Java's that have just joined.
        printed = cluster.java.mqadmin("consumerStatus", "-g", group)
        found[:] = re.split(r"^\d+ +\S+@\S+ .*$", printed, flags=re.MULTILINE)
        return len(found) == 3

    wait_until(has_both, why=lambda: found)
    return found[-1].strip()


@pytest.fixture(scope="module")
def wanted(pushing: Cluster) -> tuple[str, str]:
    """Two topics."""
    for name in ("Wanted", "WantedAlso"):
        pushing.create_topic(name, queue_count=1)
    return "Wanted", "WantedAlso"


@pytest.mark.parametrize(
    ("kind", "first", "second", "words", "agrees"),
    [
        ("Tags", {"expr": "TagA || TagB"}, {"expr": "TagA || TagB"}, "TagA || TagB", True),
        ("Sql", {"sql": "at >= 5"}, {"sql": "at >= 5"}, "SQL92:at >= 5", True),
        ("Torn", {"expr": "TagA"}, {"expr": "TagB"}, "TagB", False),
    ],
)
def test_conflicts_are_found_where_they_are_found_between_javas_members(
    pushing: Cluster, rmqctl: Rmqctl, ours: OurConsumers, wanted: tuple[str, str], kind: str,
    first: dict[str, object], second: dict[str, object], words: str, agrees: bool,
) -> None:  # fmt: skip
    """Each member consumes two topics; only of one do they differ."""
    topic, also = wanted
    analysed: dict[str, str] = {}
    ids: dict[str, tuple[str, str]] = {}
    for group in (f"{kind}Java", f"{kind}Mixed"):
        java_id = pushing.java.consume(f"{group}1", group, topic, also=also, instance=f"1{group}", **first)
        # mqadmin looks only where the first member has been there for 2 minutes.
        pushing.java.call("backdate", id=f"{group}1", ms=180_000)
        if group.endswith("Java"):
            other_id = pushing.java.consume(f"{group}2", group, topic, also=also, instance=f"2{group}", **second)
        else:
            other_id = ours("ours", group, f"{topic}:{words}", also, "--instance", f"2{group}").wait_joined()
        ids[group] = (java_id, other_id)
        analysed[group] = _analysis(pushing, group)
    for group in ids:
        for name in wanted:
            settled_members(rmqctl, group, name, 2)
    subscriptions = {group: rmqctl.items("group", "subscriptions", group) for group in ids}
    attention: dict[str, list[str]] = {}

    def has_settled(group: str) -> bool:
        # The retry topic, which comes later, is shared in a round of its own.
        findings = rmqctl.items("group", "describe", group)[0]["findings"]
        # Versions of two libraries are never alike.
        attention[group] = [finding["sentence"] for finding in findings if finding["code"] != "MEM005"]
        return not any("%RETRY%" in sentence for sentence in attention[group])

    for group in ids:
        wait_until(partial(has_settled, group), 60, why=lambda: attention)
    for group in ids:
        pushing.java.stop(f"{group}1")
    pushing.java.stop(f"{kind}Java2")

    same = "Same subscription in the same group of consumer\n\nRebalance OK"
    torn = "WARN: Different subscription in the same group of consumer!!!"
    assert list(analysed.values()) == [same if agrees else torn] * 2
    for items, members in zip(subscriptions.values(), ids.values(), strict=True):
        found = [(each["topic"], each["expressionType"], each["agrees"], each["clientIds"]) for each in items]
        both, kind_of_filter = sorted(members), "SQL92" if "sql" in first else "TAG"
        expected = [(topic, kind_of_filter, agrees, by) for by in ([both] if agrees else [[one] for one in members])]
        assert sorted(found) == sorted([*expected, (also, "TAG", True, both)])
        assert all(time.time() * 1000 - each["subVersion"] < 60_000 for each in items)
    filters = [{(each["subString"], tuple(each["tagsSet"])) for each in items} for items in subscriptions.values()]
    assert filters[0] == filters[1]
    java_attention, mixed_attention = attention.values()
    assert [_without_names(each) for each in mixed_attention] == [_without_names(each) for each in java_attention]
    assert any(topic in sentence for sentence in mixed_attention) == (not agrees), mixed_attention


def _without_names(sentence: str) -> str:
    """Leave out ids, and which filter brokers deliver: that of whoever subscribed last."""
    return re.sub(r"(Java|Mixed)\b|\S+@\S+|broker-a, broker-b deliver .*", "", sentence)


# Resets, as brokers push them


def _wave(cluster: Cluster, topic: str, prefix: str, count: int = 10) -> None:
    for number in (0, 1):
        cluster.java.produce(topic, count, prefix=f"{prefix}{number}-", queue=f"{_BROKER}:{number}")


def _waves(queue: str, waves: str) -> list[str]:
    """Return what comes of a queue when these waves do: two messages in the last one, ten in others."""
    return [f"{wave}{queue}-{number}" for wave in waves for number in range(2 if wave == "c" else 10)]


def test_resets_that_are_pushed_do_to_ours_what_they_do_to_javas_members(
    pushing: Cluster, rmqctl: Rmqctl, ours: OurConsumers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three groups at once, as each stands still for 10 s: reset by mqadmin, by mqadmin for C++, by rmqctl."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    topic, by_time, for_cpp, by_rmqctl = "Reset", "ResetByTime", "ResetForCpp", "ResetByRmqctl"
    pushing.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    members: dict[str, list[OurConsumer]] = {}
    for group in (by_time, for_cpp, by_rmqctl):
        names = [f"{group}-1", f"{group}-2"]
        if group != by_rmqctl:
            pushing.java.consume(group, group, topic, instance=names.pop(0), heartbeat=1000, collect=1)
        members[group] = [ours(name, group, topic, "--instance", name) for name in names]
    for group in members:
        settled_members(rmqctl, group, topic, 2)

    def given(group: str) -> list[list[str]]:
        """Return what each member was given, Java's first."""
        by_java = [[each.body for each in pushing.java.attempts(group)]] if group != by_rmqctl else []
        return by_java + [[each.body for each in made.heard("BEGAN")] for made in members[group]]

    def have_come(groups: Iterable[str], count: int) -> bool:
        return all(sum(map(len, given(group))) == count for group in groups)

    _wave(pushing, topic, "a")
    wait_until(lambda: have_come(members, 20))
    time.sleep(0.6)  # 4.9's search for a time takes the message that is nearest to it
    _wave(pushing, topic, "b")
    wait_until(lambda: have_come(members, 40), why=lambda: list(map(given, members)))
    shares = {group: [found[0][1] for found in given(group)] for group in members}
    found = rmqctl.items("message", "find", topic)
    second_wave = min(item["storeTimestamp"] for item in found if item["body"].startswith("b"))
    # 5.x's tool takes the letter for a cluster's name as well, which it wants then.
    began_ms = time.time() * 1000
    cpp = ("-c",) if pushing.version == "4.9.7" else ("-c", "DefaultCluster")
    for group, more in ((by_time, ()), (for_cpp, cpp)):
        words = ("-n", pushing.namesrv, "-g", group, "-t", topic, "-s", str(second_wave), *more)
        printed = pushing.java.mqadmin("resetOffsetByTime", *words)
        assert sorted(re.findall(rf"^{_BROKER} +(\d) +(\d+) *$", printed, re.MULTILINE)) == [("0", "10"), ("1", "10")]
    # While two groups stand still.
    _wave(pushing, topic, "c", 2)
    wait_until(lambda: have_come([by_rmqctl], 44))
    done = rmqctl(
        "offset", "reset", by_rmqctl, "--topic", topic, "--to-offset", "10", "--yes", "-o", "json", limit_s=90
    )  # fmt: skip

    assert done.exit_code == 0, done.stderr + done.stdout
    assert done.document["route"] == "CLIENT_PUSH"
    assert [(each["target"], each["result"]) for each in done.document["items"]] == [(10, "CONFIRMED")] * 2
    expected = {
        by_time: [_waves(queue, "abbc") for queue in shares[by_time]],
        # Java's can't read what brokers tell C++'s; ours can, as a group may have members of any kind.
        for_cpp: [_waves(shares[for_cpp][0], "abc"), _waves(shares[for_cpp][1], "abbc")],
        by_rmqctl: [_waves(queue, "abcbc") for queue in shares[by_rmqctl]],
    }
    wait_until(lambda: all(have_come([group], sum(map(len, bodies))) for group, bodies in expected.items()))
    time.sleep(0.5)
    assert {group: list(map(sorted, given(group))) for group in members} == {
        group: list(map(sorted, bodies)) for group, bodies in expected.items()
    }
    # What came while they stood still was given to none of them before they went on.
    (own,) = members[by_time]
    late = [each for each in own.heard("BEGAN") if each.body.startswith("c")]
    assert min(each.at_ms for each in late) - began_ms > 9_500
    ages_ms = [each.age_ms for each in pushing.java.attempts(by_time) if each.body.startswith("c")]
    assert min(ages_ms) + _stored_at_ms(rmqctl, topic, "c") - began_ms > 9_500
    assert {made.terminate() for each in members.values() for made in each} == {0}
    for group in (by_time, for_cpp):
        pushing.java.stop(group)


def _stored_at_ms(rmqctl: Rmqctl, topic: str, prefix: str) -> int:
    """Return when the last message was stored whose body starts so."""
    found = rmqctl.items("message", "find", topic)
    return max(int(item["storeTimestamp"]) for item in found if item["body"].startswith(prefix))


# Connections


def test_a_member_whose_connection_broke_is_seen_again(pushing: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    topic = group = "Cut"
    pushing.create_topic(topic, queue_count=1)
    broker = pushing.brokers["broker-b"]
    java_id = pushing.java.consume("cut", group, topic, instance="1java")

    def rows() -> dict[str, ClientRow]:
        return client_rows(pushing.java.mqadmin("consumerConnection", "-g", group, "-b", broker.address))

    relay = Relay(broker.port)
    try:
        words = ("--instance", "2ours", "--map-address", f"{broker.name}={relay.address}")
        member = ours("ours", group, topic, *words)
        our_id = member.wait_joined()
        settled_members(rmqctl, group, topic, 2)
        before = rows()
        assert set(before) == {java_id, our_id}
        relay.reset()
        # Told at once on the new connection: heartbeats are 30 s apart.
        wait_until(lambda: our_id in (after := rows()) and after[our_id].address != before[our_id].address, 10)
        assert rows()[java_id] == before[java_id]
        settled_members(rmqctl, group, topic, 2)
        for name in pushing.addresses:
            pushing.java.produce(topic, 5, queue=f"{name}:0")
        wait_until(lambda: len(member.heard()) == 5)
        pushing.java.wait_consumed("cut", 5)
        assert member.terminate() == 0
    finally:
        relay.close()
    assert set(rows()) == {java_id}
    pushing.java.stop("cut")

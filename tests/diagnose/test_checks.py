"""Every check: groups that it must find something in, and groups in which none may find anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.diagnose.clocks import GroupClocks
from rmqctl.diagnose.diagnosis import at_least, diagnose
from rmqctl.diagnose.finding import SEVERITIES, Need, Severity
from rmqctl.diagnose.table import CHECKS
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.versions import version_ordinal
from rmqctl.rules.clock_skew import ClockBounds, SkewBounds
from rmqctl.rules.message_filters.tags import tag_code
from tests.admin.cluster import HOUR_MS, NOW_MS, ON_TIME, Queue, held, rates, running, subscribed
from tests.cli.group.groups import STRATEGY, WORDS
from tests.protocol.records import Record, properties_text
from tests.scripted_peer import SILENCE, refused

from . import test_progress
from .groups import Change, at_a, both, codes, filtered, groups_of, healthy, look, member, members, sick

_OTHER = subscribed("T", "B")
_A = subscribed("T", "A")
_OLD_MS = 1_000_000_000_000
_AHEAD_MS = 1_900_000_000_000
# Set a minute ago by a clock that is an hour ahead.
_FAST = subscribed("T", "A", NOW_MS - 60_000 + HOUR_MS)
_NS = 1_795_238_115_408_000_000
_REVIVE = "rmq_sys_REVIVE_LOG_C"


def _no_offsets(cluster: Any) -> None:
    for broker in cluster.brokers.values():
        broker.groups.clear()


def _popping_late(late_ms: int) -> Change:
    """Let broker-a have a record of a pop that is due for so long, of a group that pops."""
    body = {"c": "G", "t": "T", "q": 0, "so": 0, "pt": NOW_MS - late_ms - 10_000, "it": 10_000, "n": 1}
    record = Record(
        queue_id=0, queue_offset=0, topic=_REVIVE.encode(), stored_at_ms=NOW_MS - late_ms - 1_000,
        body=json.dumps(body).encode(), properties=properties_text({"TAGS": "ck"}),
    )  # fmt: skip

    def change(broker: Any) -> None:
        broker.topics[_REVIVE] = [Queue(8)]
        broker.records[_REVIVE] = record.encode()

    popper = running(pops={("T", "broker-a", -1): 3}, subscriptions=[subscribed("T")], **WORDS)
    return both(members(c1=popper), at_a(change))


def _kept(topic: str, queue_id: int, stored_at_ms: int, **properties: str) -> Change:
    """Let broker-a keep one message in a system topic."""
    record = Record(
        queue_id=queue_id, queue_offset=0, topic=topic.encode(), stored_at_ms=stored_at_ms, born_at_ms=stored_at_ms,
        properties=properties_text({"REAL_TOPIC": "T", "REAL_QID": "0", **properties}),
    )  # fmt: skip

    def change(broker: Any) -> None:
        broker.topics[topic] = [*(Queue() for _ in range(queue_id)), Queue(1)]
        broker.records[topic] = record.encode()
        broker.settings["messageDelayLevel"] = "1s 5s"

    return at_a(change)


def _delayed(late_ms: int) -> Change:
    return _kept("SCHEDULE_TOPIC_XXXX", 1, NOW_MS - late_ms - 5_000)


def _half(check_count: int) -> Change:
    return _kept("RMQ_SYS_TRANS_HALF_TOPIC", 0, NOW_MS - HOUR_MS, PGROUP="P", TRANSACTION_CHECK_TIMES=str(check_count))


def _revived(cluster: Any) -> None:
    """Let broker-a have processed the pop, whose acknowledgement stays behind it for hours."""
    _popping_late(HOUR_MS)(cluster)
    broker = cluster.brokers["broker-a"]
    broker.offsets["CID_RMQ_SYS_REVIVE_GROUP"] = {_REVIVE: {0: 0}}
    broker.topics[_REVIVE] = [Queue(2)]
    body = {"c": "G", "t": "T", "q": 0, "so": 0, "pt": NOW_MS - HOUR_MS, "ao": 0}
    broker.records[_REVIVE] = Record(
        queue_id=0, queue_offset=1, topic=_REVIVE.encode(), stored_at_ms=NOW_MS - HOUR_MS,
        body=json.dumps(body).encode(), properties=properties_text({"TAGS": "ack"}),
    ).encode()  # fmt: skip


def _by_sql() -> Change:
    """Let the members filter by SQL92, with messages unread at both brokers."""
    wanted = subscribed("T", "a > 1", kind="SQL92")

    def change(cluster: Any) -> None:
        for broker in cluster.brokers.values():
            broker.offsets["G"]["T"] = {0: 90, 1: 90}

    fields = {"lastConsumeTimestamp": NOW_MS - HOUR_MS}
    return both(
        change,
        members(
            c1=member("a0", "a1", wants=[wanted], commit=90, fields=fields),
            c2=member("b0", "b1", wants=[wanted], commit=100),
        ),
        groups_of(subscriptions={"T": wanted}),
    )


def _sql_is_on(at_a: str, at_b: str) -> Change:
    def change(cluster: Any) -> None:
        for name, value in (("broker-a", at_a), ("broker-b", at_b)):
            cluster.brokers[name].settings["enablePropertyFilter"] = value

    return change


def _dead_letters(count: int, *, perm: int) -> Change:
    def change(broker: Any) -> None:
        broker.topics["%DLQ%G"] = [Queue(count)]
        broker.topic_configs["%DLQ%G"] = {"perm": perm}

    return at_a(change)


def _lag(cluster: Any, *, queue_count: int) -> None:
    """Let broker-a's first queues lag by 10,000."""
    for queue in cluster.brokers["broker-a"].topics["T"][:queue_count]:
        queue.max_offset = 10_100


def _more_queues(count: int) -> Change:
    def change(cluster: Any) -> None:
        for broker in cluster.brokers.values():
            broker.topics["T"] = [Queue(100) for _ in range(count)]
            broker.offsets["G"]["T"] = dict.fromkeys(range(count), 100)

    return change


def _busy(ok_tps: float, *queues: str) -> Any:
    holds = {("T", f"broker-{queue[0]}", int(queue[1])): held(commit=100) for queue in queues}
    return running(holds, subscriptions=[subscribed("T")], statuses={"T": rates(ok_tps)}, **WORDS)


_ORDERLY = {"PROP_CONSUMEORDERLY": "true"}
_BROADCAST = {"messageModel": "BROADCASTING"}
# Brokers assign queues to a member with this setting; setConsumeMode decides whether it pops or pulls them.
_ASSIGNED = {"clientRebalance": "false"}
_CIRCLE = {"allocateMessageQueueStrategy": f"{STRATEGY}ByCircle@1"}


def _two_ways(client_id: str, number: int) -> Any:
    """Return a member that pops from T, and pulls the queue of U at one broker."""
    holds = {("U", f"broker-{'ab'[number]}", 0): held(commit=100, **ON_TIME)}
    pops = {("T", f"broker-{name}", -1): 0 for name in "ab"}
    wants = [subscribed("T"), subscribed("U")]
    return running(holds, pops, subscriptions=wants, **{**WORDS, **_ASSIGNED, "id": client_id})


# What is done to a healthy group of two members and four queues, and what must be found then.
SICK: list[tuple[str, Change, set[str]]] = [
    ("filters differ", members(c1=member("a0", "a1", wants=[_A]), c2=member("b0", "b1", wants=[_OTHER])), {"SUB001"}),
    (
        "only one wants U",
        both(
            members(c1=member("a0", "a1", wants=[subscribed("T"), subscribed("U")]), c2=member("b0", "b1")),
            groups_of(topics=("T", "U")),
        ),
        {"SUB002"},
    ),
    (
        "types differ",
        members(c1=member("a0", "a1"), c2=member("b0", "b1", wants=[subscribed("T", "a > 1", kind="SQL92")])),
        {"SUB003"},
    ),
    (
        "broker-a has another filter",
        at_a(lambda broker: broker.groups["G"].subscriptions.update(T=subscribed("T", "X"))),
        {"SUB004"},
    ),
    (
        "broker-a has an old version",
        at_a(lambda broker: broker.groups["G"].subscriptions.update(T=subscribed("T", version_ms=_OLD_MS))),
        {"SUB005"},
    ),
    (
        "a version from the future",
        members(
            c1=member("a0", "a1", wants=[subscribed("T", version_ms=_AHEAD_MS)]), c2=member("b0", "b1")
        ),
        {"SUB005", "SUB006", "CLK003"},
    ),
    (
        "a version from the past",
        members(c1=member("a0", "a1", wants=[subscribed("T", version_ms=_OLD_MS)]), c2=member("b0", "b1")),
        {"SUB007"},
    ),
    ("broker-a lacks a topic", at_a(lambda broker: setattr(broker.groups["G"], "topics", ())), {"SUB008"}),
    (
        "brokers differ, and no member answers",
        both(
            members(c1=SILENCE, c2=SILENCE),
            at_a(lambda broker: broker.groups["G"].subscriptions.update(T=subscribed("T", "X"))),
        ),
        {"SUB009", "MEM009"},
    ),
    (
        "consuming is disabled",
        at_a(lambda broker: broker.group_configs.update(G={"consumeEnable": False})),
        {"PUL001", "CFG001"},
    ),
    ("a topic is forbidden", at_a(lambda broker: broker.forbidden.update(G={"T": 4})), {"PUL002", "CFG001"}),
    (
        "broadcasting is disabled",
        both(
            members(c1=member("a0", "a1", "b0", "b1", **_BROADCAST), c2=member("a0", "a1", "b0", "b1", **_BROADCAST)),
            groups_of(message_model="BROADCASTING"),
            at_a(lambda broker: broker.group_configs.update(G={"consumeBroadcastEnable": False})),
        ),
        {"PUL003", "CFG001", "OFF011"},
    ),
    (
        "a topic is not readable at broker-a",
        both(
            members(c1=member("b0"), c2=member("b1")),
            at_a(lambda broker: broker.topic_configs.update(T={"perm": 2})),
        ),
        {"PUL004"},
    ),
    ("broker-a refuses SQL92 filters", both(_by_sql(), _sql_is_on("false", "true")), {"PUL005"}),
    ("one client id is used twice", groups_of(addresses={"c1": ["192.0.2.2:1", "192.0.2.3:1"]}), {"ALO002", "MEM001"}),
    (
        "a member that broker-a does not see",
        at_a(lambda broker: setattr(broker.groups["G"], "members", {"c1": broker.groups["G"].members["c1"]})),
        {"MEM002"},
    ),
    (
        "models differ",
        members(c1=member("a0", "a1"), c2=member("b0", "b1", **_BROADCAST)),
        {"MEM003"},
    ),
    (
        "types of consumers differ",
        members(c1=member("a0", "a1"), c2=member("b0", "b1", PROP_CONSUME_TYPE="CONSUME_ACTIVELY")),
        {"MEM004"},
    ),
    (
        "versions differ",
        at_a(lambda broker: setattr(broker.groups["G"], "client_version", version_ordinal(5, 3, 1))),
        {"MEM005"},
    ),
    (
        "settings differ",
        members(c1=member("a0", "a1", consumeTimeout="1"), c2=member("b0", "b1", maxReconsumeTimes="3")),
        {"MEM006"},
    ),
    ("not all members consume in order", members(c1=member("a0", "a1", **_ORDERLY), c2=member("b0", "b1")), {"MEM007"}),
    (
        "more members than queues",
        members(c1=member("a0"), c2=member("a1"), c3=member("b0"), c4=member("b1"), c5=member()),
        {"MEM008"},
    ),
    ("a silent member", members(c1=member("a0", "a1"), c2=SILENCE), {"MEM009"}),
    (
        "strategies differ",
        members(
            c1=member("a0", "a1"),
            c2=member("a1", "b1", allocateMessageQueueStrategy=f"{STRATEGY}ByCircle@1"),
        ),
        {"ALO001", "ALO003", "ALO004"},
    ),
    ("a member holds another member's queue", members(c1=member("a0", "a1", "b0"), c2=member("b1")), {"ALO002"}),
    ("no member holds a queue", members(c1=member("a0", "a1"), c2=member("b0")), {"ALO002", "ALO003"}),
    ("two members hold a queue", members(c1=member("a0", "a1"), c2=member("a1", "b0", "b1")), {"ALO002", "ALO004"}),
    (
        "one member pops the queues that another pulls",
        members(c1=member(pops="ab", **_ASSIGNED), c2=member("b0", "b1")),
        {"ALO004"},
    ),
    (
        "one member pops the queues that an orderly member with the same settings pulls",
        members(c1=member(pops="ab", **_ASSIGNED), c2=member("b0", "b1", **_ASSIGNED, **_ORDERLY)),
        {"ALO004", "MEM007"},
    ),
    (
        "a member pops, and the strategies of members that pull differ",
        members(c1=member(pops="ab", **_ASSIGNED), c2=member("a1"), c3=member("b0", **_CIRCLE)),
        {"ALO001", "ALO004"},
    ),
    (
        "a member broadcasts, and the strategies of members that share queues differ",
        members(
            c1=member("a0", "b1", **_CIRCLE), c2=member("a0", "a1", "b0", "b1", **_BROADCAST), c3=member("b1")
        ),
        {"MEM003", "ALO001", "ALO004"},
    ),
    (
        "a member pops, and a queue that another should pull has no owner",
        members(c1=member("a0", "a1"), c2=member(), c3=member(pops=["b1"], **_ASSIGNED)),
        {"ALO002", "ALO003", "MEM008"},
    ),
    (
        "a member pops, and the retry topic of another one is missing",
        both(
            members(c1=member("a0", "a1"), c2=member("b0"), c3=member(pops=["b1"], **_ASSIGNED)),
            at_a(lambda broker: broker.topics.pop("%RETRY%G")),
        ),
        {"RTY003"},
    ),
    (
        "one member broadcasts where broadcasting is disabled",
        both(
            members(c1=member("a0", "a1"), c2=member("a0", "a1", "b0", "b1", **_BROADCAST)),
            at_a(lambda broker: broker.group_configs.update(G={"consumeBroadcastEnable": False})),
        ),
        {"MEM003", "PUL003", "CFG001"},
    ),
    (
        "a member broadcasts, and messages of another one fail at a broker that is read-only",
        both(
            at_a(lambda broker: broker.settings.update(brokerPermission="4")),
            members(c1=member("a0", "a1", statuses={"T": rates(10, 0.1)}), c2=member("b0", **_BROADCAST)),
        ),
        {"MEM003", "RTY002"},
    ),
    (
        "a member broadcasts, and another one has lost a lock",
        members(c1=member("a0", "a1", fields={"locked": False}, **_ORDERLY), c2=member(**_ORDERLY, **_BROADCAST)),
        {"MEM003", "ORD001"},
    ),
    (
        "a member broadcasts, and others hold uneven numbers of queues",
        both(
            _more_queues(3),
            members(c1=member("a0", "a1", "a2", "b0"), c2=member("b1"), c3=member("a0", **_BROADCAST)),
        ),
        {"MEM003", "ALO002", "SKW004"},
    ),
    (
        "a member broadcasts, and one of the others does all the work",
        members(c1=_busy(100, "a0", "a1"), c2=_busy(0, "b0"), c3=member("b1", **_BROADCAST)),
        {"MEM003", "SKW005"},
    ),
    (
        "a silent member, and another that starts at the end of a queue that is new to the group",
        both(
            members(
                c1=member("a0", "a1", allocateMessageQueueStrategy="com.example.Mine@1"),
                c2=SILENCE,
            ),
            at_a(lambda broker: broker.topics.update(T=[Queue(100, 50), Queue(100)])),
            at_a(lambda broker: broker.offsets["G"]["T"].pop(0)),
        ),
        {"MEM009", "OFF009"},
    ),
    ("one hot queue", lambda cluster: _lag(cluster, queue_count=1), {"SKW001"}),
    ("a slow broker", lambda cluster: _lag(cluster, queue_count=2), {"SKW002"}),
    (
        "one member holds most queues",
        both(_more_queues(3), members(c1=member("a0", "a1", "a2", "b0", "b1"), c2=member("b2"))),
        {"ALO002", "SKW004"},
    ),
    ("one member does all the work", members(c1=_busy(100, "a0", "a1"), c2=_busy(0, "b0", "b1")), {"SKW005"}),
    ("a broker's clock is behind", at_a(lambda broker: setattr(broker, "skew_ms", -90_000)), {"CLK001"}),
    (
        "a member's clock is ahead",
        members(c1=member("a0", "a1", skew_ms=HOUR_MS), c2=member("b0", "b1")),
        {"CLK002"},
    ),
    (
        "a member's clock is behind",
        members(c1=member("a0", "a1", skew_ms=-HOUR_MS), c2=member("b0", "b1")),
        {"CLK002"},
    ),
    (
        "the filter of a fast clock applies",
        both(
            members(
                c1=member("a0", "a1", wants=[_FAST], skew_ms=HOUR_MS),
                c2=member("b0", "b1", wants=[subscribed("T", version_ms=NOW_MS - 30_000)]),
            ),
            groups_of(subscriptions={"T": _FAST}),
        ),
        {"SUB001", "SUB006", "CLK002", "CLK003"},
    ),
    (
        "a popping member with a fast clock",
        members(
            c1=running(
                pops={("T", "broker-a", -1): 3}, popped_at_ms=NOW_MS + HOUR_MS, subscriptions=[subscribed("T")], **WORDS
            )
        ),
        {"CLK002", "CLK004", "OFF006"},
    ),
    (
        "clients before 4.9.1",
        groups_of(client_version=version_ordinal(4, 8, 0)),
        {"VER001"},
    ),
    (
        "brokers have different settings",
        at_a(lambda broker: broker.group_configs.update(G={"retryMaxTimes": 3})),
        {"CFG001"},
    ),
    ("a broker without the group", at_a(lambda broker: broker.configured.clear()), {"CFG002"}),
    (
        "no retry queues",
        at_a(lambda broker: broker.group_configs.update(G={"retryQueueNums": 0})),
        {"RTY001", "CFG001"},
    ),
    (
        "a broker is read-only, and messages fail",
        both(
            at_a(lambda broker: broker.settings.update(brokerPermission="4")),
            lambda cluster: cluster.brokers["broker-b"].topic_configs.update({"%RETRY%G": {"perm": 4}}),
            members(c1=member("a0", "a1", statuses={"T": rates(10, 0.1)}), c2=member("b0", "b1")),
        ),
        {"RTY002"},
    ),
    ("the retry topic is missing", at_a(lambda broker: broker.topics.pop("%RETRY%G")), {"RTY003"}),
    (
        "most messages fail",
        members(c1=member("a0", "a1", statuses={"T": rates(1, 5)}), c2=member("b0", "b1")),
        {"RTY004"},
    ),
    (
        "a message that always fails is retried in order",
        members(
            c1=member(
                "a0", "a1", statuses={"T": rates(10, 1)}, fields={"transactionMsgCount": 1}, **_ORDERLY
            ),
            c2=member("b0", "b1", **_ORDERLY),
        ),
        {"RTY005"},
    ),
    (
        "pulling members leave failed messages unread",
        both(
            members(c1=member(PROP_CONSUME_TYPE="CONSUME_ACTIVELY"), c2=member(PROP_CONSUME_TYPE="CONSUME_ACTIVELY")),
            groups_of(consume_type="CONSUME_ACTIVELY", topics=("T",)),
            at_a(lambda broker: broker.topics.update({"%RETRY%G": [Queue(20)]})),
        ),
        {"RTY006"},
    ),
    (
        "broadcasting members leave failed messages unread",
        both(
            members(c1=member("a0", "a1", "b0", "b1", **_BROADCAST), c2=member("a0", "a1", "b0", "b1", **_BROADCAST)),
            groups_of(message_model="BROADCASTING", topics=("T",)),
            at_a(lambda broker: broker.topics.update({"%RETRY%G": [Queue(20)]})),
        ),
        {"OFF011", "RTY006"},
    ),
    (
        "no member holds the retry queue, which contains failed messages",
        at_a(lambda broker: broker.topics.update({"%RETRY%G": [Queue(20)]})),
        {"ALO003"},
    ),
    (
        "failed messages, and no members",
        both(
            at_a(lambda broker: broker.topics.update({"%RETRY%G": [Queue(20)]})),
            lambda cluster: _no_offsets(cluster) or [
                broker.offsets["G"].update(T={0: 100, 1: 100}) for broker in cluster.brokers.values()
            ],
        ),
        {"OFF005"},
    ),
    (
        "a lock is lost",
        members(c1=member("a0", "a1", fields={"locked": False}, **_ORDERLY), c2=member("b0", "b1", **_ORDERLY)),
        {"ORD001"},
    ),
    (
        "a queue is revoked, and its lock is kept",
        members(
            c1=member("a0", "a1", dropped=["b0"], fields={"tryUnlockTimes": 3}, **_ORDERLY),
            c2=member("b1", **_ORDERLY),
        ),
        {"ORD002", "ALO002", "ALO003"},
    ),
    (
        "members are not notified",
        lambda cluster: [
            broker.group_configs.update(G={"notifyConsumerIdsChangedEnable": False})
            for broker in cluster.brokers.values()
        ],
        {"CFG003"},
    ),
    ("deleted unread", at_a(lambda broker: broker.topics.update(T=[Queue(100, 80), Queue(100)])), {"OFF001"}),
    ("an offset is beyond the end", at_a(lambda broker: broker.offsets["G"]["T"].update({0: 101})), {"OFF002"}),
    ("an offset of a missing queue", at_a(lambda broker: broker.offsets["G"].update(gone={0: 1})), {"OFF003"}),
    (
        "queues that no consumer can read",
        at_a(
            lambda broker: broker.topics["T"].append(Queue(4))
            or broker.topic_configs.update(T={"readQueueNums": 2, "writeQueueNums": 3})
        ),
        {"OFF004"},
    ),
    (
        "unread messages in a queue that was removed",
        both(
            at_a(lambda broker: broker.offsets["G"]["T"].update({5: 1})),
            at_a(lambda broker: broker.cut_queues.update({("T", 5): Queue(8)})),
        ),
        {"OFF004"},
    ),
    (
        "offsets of a topic that no member subscribes to any longer",
        both(
            at_a(lambda broker: broker.topics.update(U=[Queue(10)])),
            at_a(lambda broker: broker.offsets["G"].update(U={0: 3})),
        ),
        {"OFF012"},
    ),
    (
        "members read from a slave, because the backlog is not in the master's memory",
        at_a(lambda broker: broker.settings.update(slaveReadEnable="true") or setattr(broker, "suggested_id", 1)),
        {"OFF013"},
    ),
    ("a filter leaves out most of the lag", filtered([tag_code("A"), 1, 2, 3]), {"OFF014"}),
    ("pops are not redelivered", _popping_late(61_000), {"OFF006", "POP001"}),
    ("delayed messages are overdue", _delayed(55_000), {"DLY001"}),
    ("a half message that its producer does not end", _half(5), {"TRX001"}),
    (
        "C++ and other members, and brokers that send offsets",
        both(
            groups_of(languages={"c1": "CPP"}),
            at_a(lambda broker: broker.settings.update(useServerSideResetOffset="true")),
        ),
        {"CFG004", "MEM005"},
    ),
    ("messages wait, and all members are gone", _no_offsets, {"OFF005"}),
    (
        "popped messages",
        members(c1=running(pops={("T", "broker-a", -1): 3}, subscriptions=[subscribed("T")], **WORDS)),
        {"OFF006"},
    ),
    ("dead letters", at_a(lambda broker: broker.topics.update({"%DLQ%G": [Queue(3)]})), {"DLQ001"}),
    (
        "dead letters arrive",
        at_a(lambda broker: broker.topics.update({"%DLQ%G": [Queue(3, last_update_ms=NOW_MS - 60_000)]})),
        {"DLQ001", "DLQ002"},
    ),
    ("dead letters that cannot be read", _dead_letters(2, perm=2), {"DLQ001", "DLQ003"}),
]  # fmt: skip

HEALTHY: list[tuple[str, Change]] = [
    ("unchanged", lambda cluster: None),
    (
        "pull consumers, whose filters have no version",
        members(c1=member("a0", "a1", wants=[subscribed("T", version_ms=0)]), c2=member("b0", "b1")),
    ),
    (
        "members that broadcast share the id that is the default for them",
        both(
            members(c1=member("a0", "a1", "b0", "b1", **_BROADCAST)),
            groups_of(message_model="BROADCASTING", addresses={"c1": ["192.0.2.2:1", "192.0.2.3:1"]}),
        ),
    ),
    ("a retry topic that is newer than its route", at_a(lambda b: b.offsets["G"].update({"%RETRY%G_T": {0: 0}}))),
    (
        "tags in another order",
        both(
            members(
                c1=member("a0", "a1", wants=[subscribed("T", "A||B")]),
                c2=member("b0", "b1", wants=[subscribed("T", "B || A")]),
            ),
            groups_of(subscriptions={"T": subscribed("T", "A||B")}),
        ),
    ),
    (
        "broadcasting",
        both(
            members(c1=member("a0", "a1", "b0", "b1", **_BROADCAST), c2=member("a0", "a1", "b0", "b1", **_BROADCAST)),
            groups_of(message_model="BROADCASTING"),
        ),
    ),
    ("a filter leaves out some of the lag", filtered([tag_code("A"), tag_code("A"), 2])),
    ("brokers evaluate SQL92 filters", both(_by_sql(), _sql_is_on("true", "true"))),
    ("a broker that refuses SQL92 filters, and members that use tags", _sql_is_on("false", "false")),
    ("pops that are due now", _popping_late(30_000)),
    ("delayed messages that are due now", _delayed(3_000)),
    ("delayed messages that are not due yet", _delayed(-4_000)),
    ("a half message after the first check", _half(1)),
    ("a revive queue with a processed check point and its acknowledgements", _revived),
    ("a dead-letter topic without write permission, which brokers ignore", _dead_letters(2, perm=4)),
    ("an empty dead-letter topic that cannot be read", _dead_letters(0, perm=2)),
    ("slaves are readable, and all is in memory", at_a(lambda b: b.settings.update(slaveReadEnable="true"))),
    (
        "C++ and other members, and brokers that reset offsets themselves",
        both(
            groups_of(languages={"c1": "CPP"}),
            lambda cluster: [
                broker.settings.update(useServerSideResetOffset="true") for broker in cluster.brokers.values()
            ],
        ),
    ),
    (
        "all members consume in order",
        members(c1=member("a0", "a1", **_ORDERLY), c2=member("b0", "b1", **_ORDERLY)),
    ),
    (
        "the strategy circle",
        members(
            c1=member("a0", "b0", allocateMessageQueueStrategy=f"{STRATEGY}ByCircle@1"),
            c2=member("a1", "b1", allocateMessageQueueStrategy=f"{STRATEGY}ByCircle@2"),
        ),
    ),
    (
        "all versions in ns, as in Go clients",
        both(
            members(
                c1=member("a0", "a1", wants=[subscribed("T", version_ms=_NS)]),
                c2=member("b0", "b1", wants=[subscribed("T", version_ms=_NS)]),
            ),
            groups_of(subscriptions={"T": subscribed("T", version_ms=_NS)}),
        ),
    ),
    (
        "all members pop, and one of them has no queue",
        members(c1=member(pops="ab", **_ASSIGNED), c2=member(pops="ab", **_ASSIGNED), c3=member(**_ASSIGNED)),
    ),
    (
        "members pop and pull different queues",
        members(c1=member("a0", "a1"), c2=member("b0"), c3=member(pops=["b1"], **_ASSIGNED)),
    ),
    (
        "members pop from T and pull from U",
        both(
            members(**{name: _two_ways(name, queue) for name, queue in (("c1", 0), ("c2", 1))}),
            groups_of(topics=("T", "U")),
            lambda cluster: [
                broker.topics.update(U=[Queue(100)]) or broker.offsets["G"].update(U={0: 100})
                for broker in cluster.brokers.values()
            ],
        ),
    ),
    (
        "a custom strategy",
        members(
            c1=member("a0", allocateMessageQueueStrategy="com.example.Mine@1"),
            c2=member("a1", "b0", "b1", allocateMessageQueueStrategy="com.example.Mine@2"),
        ),
    ),
    (
        "lite pull, which does not report its queues",
        both(
            members(c1=member(PROP_CONSUME_TYPE="CONSUME_ACTIVELY"), c2=member(PROP_CONSUME_TYPE="CONSUME_ACTIVELY")),
            groups_of(consume_type="CONSUME_ACTIVELY"),
        ),
    ),
    ("no members, and everything is read", both(_no_offsets, at_a(lambda broker: None), lambda cluster: [
        broker.offsets["G"].update(T={0: 100, 1: 100}) for broker in cluster.brokers.values()
    ])),
    ("no members, and nothing was ever consumed", both(_no_offsets, lambda cluster: [
        broker.offsets.clear() for broker in cluster.brokers.values()
    ])),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "expected"), SICK, ids=[row[0] for row in SICK])
def test_a_fault_is_found_and_no_other(what: str, change: Change, expected: set[str]) -> None:
    assert set(codes(sick(change))) == expected


@pytest.mark.parametrize(("what", "change"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_nothing_is_wrong_with_the_healthy(what: str, change: Change) -> None:
    (diagnosis,) = look(sick(change)).diagnoses
    assert [finding.sentence for finding in diagnosis.findings if at_least(Severity.WARNING)(finding)] == []


def test_a_hot_queue_is_found_by_what_arrives_meanwhile() -> None:
    cluster = healthy()
    queue = cluster.brokers["broker-a"].topics["T"][0]
    cluster.clock.call_later(1, lambda: setattr(queue, "max_offset", queue.max_offset + 500))
    assert "SKW003" in codes(cluster, sample_s=2)
    assert "SKW003" not in codes(cluster, sample_s=2)


def test_a_clock_that_is_a_little_off_is_worth_knowing_only() -> None:
    (diagnosis,) = look(sick(members(c1=member("a0", "a1", skew_ms=8_000), c2=member("b0", "b1")))).diagnoses
    assert [(each.code, each.severity) for each in diagnosis.findings] == [("CLK002", Severity.INFO)]


def test_members_are_compared_with_brokers_and_not_with_this_machine() -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.skew_ms = HOUR_MS
    both(members(c1=member("a0", "a1", skew_ms=HOUR_MS), c2=member("b0", "b1", skew_ms=HOUR_MS)))(cluster)
    assert codes(cluster) == []


def test_a_member_that_the_deadline_left_no_time_to_ask_is_not_silent() -> None:
    facts = look(sick(members(c1=member("a0", "a1"), c2=SILENCE))).diagnoses[0].facts
    found = {finding.code for finding in diagnose(replace(facts, unasked=frozenset(facts.silent)), CHECKS).findings}
    assert "MEM009" not in found


def test_unread_messages_of_a_topic_that_no_member_subscribes_to_are_counted() -> None:
    change = next(change for what, change, _ in SICK if what.startswith("offsets of a topic that no member"))
    (found,) = (each for each in look(sick(change)).diagnoses[0].findings if each.code == "OFF012")
    assert "7 messages are unread" in found.sentence


def test_clocks_that_are_not_known_leave_checks_open() -> None:
    silent = look(sick(at_a(lambda broker: setattr(broker, "tells_time", False)))).diagnoses[0]
    assert "broker-a" in silent.unknown[Need.CLOCKS]
    fresh = look(sick(members(c1=member(), c2=member("b0", "b1")))).diagnoses[0]
    assert "c1" in fresh.unknown[Need.CLOCKS]


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "is_vague"),
    [
        (-40_000, -39_990, False),  # between the brokers
        (-90_000, 0, False),
        (20_000, 25_000, False),
        (20_000, 35_000, True),
        (-125_000, -100_000, True),
        (40_000, None, False),  # surely off
        (0, None, True),
        (None, 0, True),
    ],
)
def test_a_clock_is_vague_where_it_may_be_far_from_every_broker(
    low_ms: int | None, high_ms: int | None, is_vague: bool
) -> None:
    brokers = {"broker-a": SkewBounds(-2, 2), "broker-b": SkewBounds(-90_002, -89_998)}
    assert GroupClocks(brokers, {"c1": ClockBounds(low_ms, high_ms)}).vague() == ["c1"] * is_vague


def test_a_setting_that_was_not_read_does_not_rule_out_refused_filters() -> None:
    cluster = sick(both(_by_sql(), _sql_is_on("false", "true")))
    cluster.servers["broker-a"].table[RequestCode.GET_BROKER_CONFIG] = refused(ResponseCode.NO_PERMISSION, "no")
    (diagnosis,) = look(cluster).diagnoses
    assert "PUL005" not in {finding.code for finding in diagnosis.findings}
    assert "PUL005" in diagnosis.open_codes(CHECKS, Need.BACKLOG)
    assert Need.BACKLOG in diagnosis.unknown


def test_members_that_come_and_go_are_found_while_they_are_watched() -> None:
    cluster = healthy()
    group = cluster.brokers["broker-a"].groups["G"]  # both brokers have the same members
    everybody = dict(group.members)
    for at_s in range(4, 40, 8):
        cluster.clock.call_later(at_s, lambda: group.members.pop("c2"))
        cluster.clock.call_later(at_s + 4, lambda: group.members.update(everybody))
    assert codes(cluster, sample_s=42) == ["MEM010"]


def _version_findings(cluster: Any) -> set[tuple[str, str]]:
    (diagnosis,) = look(cluster).diagnoses
    return {(finding.code, str(finding.severity)) for finding in diagnosis.findings if finding.code.startswith("VER")}


def test_defects_of_brokers_count_where_they_concern_the_group() -> None:
    cluster = healthy(version_ordinal(4, 9, 1))
    assert ("VER002", "INFO") not in _version_findings(cluster)
    cluster.brokers["broker-a"].topics["%DLQ%G"] = [Queue(3)]
    assert ("VER002", "INFO") in _version_findings(cluster)


@pytest.mark.parametrize(
    ("broker", "words", "severity"),
    [
        ((5, 1, 0), {**_ORDERLY, "maxReconsumeTimes": "3"}, "WARNING"),
        ((5, 1, 1), {**_ORDERLY, "maxReconsumeTimes": "3"}, "INFO"),
        ((5, 1, 0), {**_ORDERLY, "maxReconsumeTimes": "-1"}, "INFO"),
        ((5, 4, 0), {}, "INFO"),
    ],
)
def test_defects_of_clients_are_a_warning_where_the_group_is_sure_to_be_hit(
    broker: tuple[int, int, int], words: dict[str, str], severity: str
) -> None:
    cluster = healthy(version_ordinal(*broker))
    both(
        members(c1=member("a0", "a1", **words), c2=member("b0", "b1", **words)),
        groups_of(client_version=version_ordinal(4, 9, 7)),
    )(cluster)
    assert ("VER001", severity) in _version_findings(cluster)


@pytest.mark.parametrize(("client_id", "severity"), [("10.0.0.1@7", "WARNING"), ("10.0.0.1@7#9", "INFO")])
def test_go_clients_are_told_apart_by_their_own_word_and_their_id(client_id: str, severity: str) -> None:
    words = {"PROP_CLIENT_VERSION": "v2.1.0"}
    cluster = healthy()
    both(
        members(**{client_id: member("a0", "a1", "b0", "b1", **words)}),
        groups_of(client_version=317, languages={client_id: "GO"}),
    )(cluster)
    assert _version_findings(cluster) == {("VER001", severity)}


def test_every_check_is_tried_here() -> None:
    tried = (
        {code for _, _, expected in SICK for code in expected}
        | {"MEM010", "PXY001", "PXY002", "SKW003", "VER002"}
        | test_progress.TRIED
    )
    assert {check.code for check in CHECKS} == tried


def test_each_check_has_a_code_of_its_own_and_says_what_to_do() -> None:
    found = [check.code for check in CHECKS]
    assert len(set(found)) == len(found)
    for check in CHECKS:
        assert check.severity in SEVERITIES
        assert check.meaning.endswith(".")
        assert check.advice.endswith(".")
        assert not check.title.endswith(".")


@pytest.mark.parametrize(("what", "change", "expected"), SICK, ids=[row[0] for row in SICK])
def test_a_finding_carries_its_evidence_and_the_next_command(what: str, change: Change, expected: set[str]) -> None:
    (diagnosis,) = look(sick(change)).diagnoses
    for finding in diagnosis.findings:
        assert finding.sentence.endswith(".")
        assert "\n" not in finding.sentence
        assert finding.symptom.evidence
        assert (finding.symptom.next_command or "rmqctl ").startswith("rmqctl ")

"""Scripts of requests that move offsets: resets, clones, corrections. What members are told is compared as well."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from tests.real.differential.answering import Member
from tests.real.differential.asker import Asker, Exchange
from tests.real.differential.stats import QUERY_OFFSET, await_stored, make_group, pull, send, store_offset

CORRECTION, CLONE, RESET, MEMBERS_OFFSETS = 308, 314, 222, 223
PUSHED_RESET, ASKED_OFFSETS = 220, 221


def _reset(ask: Asker, group: str, topic: str, timestamp: object = -1, **more: object) -> None:
    ask("broker", RESET, group=group, topic=topic, timestamp=timestamp, isForce=True, **more)


def _offsets(ask: Asker, group: str, topic: str) -> None:
    for queue_id in (0, 1):
        ask("broker", QUERY_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id)


def script_reset_names(ask: Asker) -> None:
    topic, group = ask.name("RResetTopic"), ask.name("RResetGroup")
    _reset(ask, group, topic)
    send(ask, topic, 0)
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 2)
    _reset(ask, group, topic)
    make_group(ask, group, topic)
    _reset(ask, group, topic)
    _reset(ask, group, ask.name("RNoTopic"))
    ask("broker", RESET, topic=topic, timestamp=-1, isForce=True)
    ask("broker", RESET, group=group, timestamp=-1, isForce=True)
    ask("broker", RESET, group=group, topic=topic, isForce=True)
    ask("broker", RESET, group=group, topic=topic, timestamp="soon", isForce=True)
    ask("broker", RESET, group=group, topic=topic, timestamp=-1)
    _offsets(ask, group, topic)


def script_reset_offline(ask: Asker) -> None:
    topic, group = ask.name("ROfflineTopic"), ask.name("ROfflineGroup")
    for _ in range(5):
        send(ask, topic, 0)
    await_stored(ask, topic, 0, 5)
    make_group(ask, group, topic)
    store_offset(ask, group, topic, 0, 1)
    _reset(ask, group, topic)
    store_offset(ask, group, topic, 1, 0)
    _reset(ask, group, topic)
    _offsets(ask, group, topic)
    # While a reset waits for a pull, offsets are not stored.
    store_offset(ask, group, topic, 0, 2)
    _offsets(ask, group, topic)
    pull(ask, group, topic, 0, 1)
    pull(ask, group, topic, 0, 1)
    store_offset(ask, group, topic, 0, 2)
    _offsets(ask, group, topic)
    _reset(ask, group, topic, timestamp=0)
    _reset(ask, group, topic, timestamp=-7)
    ask("broker", RESET, group=group, topic=topic, timestamp=0, isForce=False)


def script_reset_one_queue(ask: Asker) -> None:
    topic, group = ask.name("RQueueTopic"), ask.name("RQueueGroup")
    for _ in range(6):
        send(ask, topic, 0)
    await_stored(ask, topic, 0, 6)
    make_group(ask, group, topic)
    for offset in (-1, 0, 3, 6, 7, 8, 99, -2, "x"):
        _reset(ask, group, topic, queueId=0, offset=offset)
    _reset(ask, group, topic, queueId=0)
    _reset(ask, group, topic, queueId=0, timestamp=0)
    _reset(ask, group, topic, queueId=1, offset=0)
    _reset(ask, group, topic, queueId=1, offset=1)
    _reset(ask, group, topic, queueId=1, offset=2)
    _reset(ask, group, topic, queueId=5, offset=0)
    _reset(ask, group, topic, queueId=5)
    _reset(ask, group, topic, queueId=-1, offset=3)
    _reset(ask, group, topic, queueId=-9, offset=3)
    _reset(ask, group, topic, queueId="x", offset=3)
    _offsets(ask, group, topic)


def _told(ask: Asker, name: str, language: str, version: int | None, timestamp: int, **more: object) -> None:
    topic, group = ask.name(f"RTopicTold{name}"), ask.name(f"RGroupTold{name}")
    for _ in range(4):
        send(ask, topic, 0)
    await_stored(ask, topic, 0, 4)
    member = Member(ask, "member", {PUSHED_RESET: None}).join(group, topic, language=language, version=version)
    store_offset(ask, group, topic, 0, 2)
    store_offset(ask, group, topic, 1, 0)
    with member:
        ask("broker", RESET, group=group, topic=topic, timestamp=timestamp, **more)
    member.leave()


def script_reset_told(ask: Asker) -> None:
    _told(ask, "ByForce", "JAVA", None, -1, isForce=True)


def script_reset_told_without_force(ask: Asker) -> None:
    _told(ask, "Softly", "JAVA", None, -1, isForce=False)


def script_reset_told_from_start(ask: Asker) -> None:
    _told(ask, "Start", "CPP", None, 0, isForce=False)


def script_reset_told_in_cpp(ask: Asker) -> None:
    """A C++ client asks: members are told in the form that C++ clients read."""
    topic, group = ask.name("RTopicToldCpp"), ask.name("RGroupToldCpp")
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 1)
    member = Member(ask, "member", {PUSHED_RESET: None}).join(group, topic)
    store_offset(ask, group, topic, 0, 2)
    store_offset(ask, group, topic, 1, 0)
    with member:
        fields = {"group": group, "topic": topic, "timestamp": "-7", "isForce": "true"}
        answer = ask.connection("broker").ask(Command(RESET, fields, language="CPP"))
        ask.exchanges.append(Exchange("broker", RESET, fields, answer))
    member.leave()


def script_reset_told_late(ask: Asker) -> None:
    _told(ask, "Late", "JAVA", 28, 4_000_000_000_000, isForce=True)


def script_reset_too_old_client(ask: Asker) -> None:
    _told(ask, "Old", "JAVA", 27, 0, isForce=True)


def script_members_offsets(ask: Asker) -> None:
    topic, group = ask.name("RStatusTopic"), ask.name("RStatusGroup")
    send(ask, topic, 0)
    ask("broker", MEMBERS_OFFSETS, group=group, topic=topic, clientAddr="")
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"' + topic.encode() + b'"}'
    table = b'{"consumerTable":{},"messageQueueTable":{' + queue + b":7}}"
    member = Member(ask, "member", {ASKED_OFFSETS: Command(0, {}, table)}).join(group, topic)
    with member:
        ask("broker", MEMBERS_OFFSETS, group=group, topic=topic)
        ask("broker", MEMBERS_OFFSETS, group=group, topic=topic, clientAddr="")
        ask("broker", MEMBERS_OFFSETS, group=group, topic=topic, clientAddr="member")
        ask("broker", MEMBERS_OFFSETS, group=group, topic=topic, clientAddr="nobody")
        ask("broker", MEMBERS_OFFSETS, group=group, topic=ask.name("RNoTopic"))
    for answer in (Command(1, {}, b"", remark="no"), Command(0, {}, b""), Command(0, {}, b"garbage")):
        with Member(ask, "member", {ASKED_OFFSETS: answer}):
            ask("broker", MEMBERS_OFFSETS, group=group, topic=topic)
    member.leave()
    member.join(group, topic, version=27)
    ask("broker", MEMBERS_OFFSETS, group=group, topic=topic)
    member.leave()


def script_clone(ask: Asker) -> None:
    topic, other = ask.name("RCloneTopic"), ask.name("RCloneOther")
    source, target = ask.name("RSource"), ask.name("RTarget")
    send(ask, topic, 0)
    send(ask, other, 0)
    await_stored(ask, topic, 0, 1)
    ask("broker", CLONE, srcGroup=source, destGroup=target, topic=topic, offline=False)
    make_group(ask, source, topic)
    make_group(ask, target, topic)
    store_offset(ask, source, topic, 0, 5)
    store_offset(ask, source, other, 1, 6)
    store_offset(ask, target, topic, 0, 1)
    store_offset(ask, target, topic, 1, 2)
    ask("broker", CLONE, srcGroup=source, destGroup=target, offline=False)
    ask("broker", CLONE, srcGroup=source, destGroup=target, topic="", offline=False)
    _offsets(ask, target, topic)
    ask("broker", CLONE, srcGroup=source, destGroup=target, topic=ask.name("RNoTopic"), offline=False)
    ask("broker", CLONE, srcGroup=source, destGroup=target, topic=topic, offline=False)
    _offsets(ask, target, topic)
    member = Member(ask, "member", {}).join(source, topic)
    ask("broker", CLONE, srcGroup=source, destGroup=target, topic=other, offline=False)
    _offsets(ask, target, other)
    ask("broker", CLONE, srcGroup=source, destGroup=target, topic=other, offline=True)
    _offsets(ask, target, other)
    ask("broker", CLONE, srcGroup=source, topic=topic, offline=True)
    ask("broker", CLONE, destGroup=target, topic=topic, offline=True)
    member.leave()


def script_correction(ask: Asker) -> None:
    topic, one, other = ask.name("RCorrectTopic"), ask.name("ROne"), ask.name("RAnother")
    ask("broker", CORRECTION, topic=topic, compareGroup=one)
    send(ask, topic, 0)
    await_stored(ask, topic, 0, 1)
    make_group(ask, one, topic)
    make_group(ask, other, topic)
    ask("broker", CORRECTION, topic=topic, compareGroup=one)
    store_offset(ask, one, topic, 0, 4)
    store_offset(ask, one, topic, 1, 9)
    store_offset(ask, other, topic, 0, 6)
    ask("broker", CORRECTION, topic=topic, compareGroup=one)
    ask("broker", CORRECTION, topic=topic, compareGroup=other)
    ask("broker", CORRECTION, topic=topic, compareGroup="nobody")
    ask("broker", CORRECTION, topic=topic)
    ask("broker", CORRECTION, compareGroup=one)
    store_offset(ask, one, topic, 1, -3)
    ask("broker", CORRECTION, topic=topic, compareGroup=one)
    ask("broker", CORRECTION, topic=topic, compareGroup=other)
    ask("broker", CORRECTION, topic=topic, compareGroup=other, filterGroups=" ")
    ask("broker", CORRECTION, topic=topic, compareGroup=other, filterGroups=f"{one},nobody")
    _offsets(ask, one, topic)
    ask("broker", CORRECTION, topic=topic, compareGroup=one)
    # Nothing is below a queue's start but an offset that makes no sense.
    store_offset(ask, one, topic, 0, -3)
    ask("broker", CORRECTION, topic=topic, compareGroup=one)
    ask("broker", CORRECTION, topic=topic, compareGroup=other)

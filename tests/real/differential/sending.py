"""Sends of all kinds, send-back, delays and timers, and finding messages by id and key."""

from __future__ import annotations

import struct
import time
from typing import Any

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command

from .asker import Asker
from .pulling import await_stored

PULL, BACK, QUERY, VIEW = 11, 36, 12, 33
V1, V2, BATCH = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
TOPIC, GROUP = 17, 200
BORN_MS = 1_700_000_000_000
_BATCH_HEAD = struct.Struct(">iiiii")


def props(**pairs: object) -> str:
    """Return properties as clients send them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def batch(*parts: tuple[int, bytes, str]) -> bytes:
    """Return the body of a batch, of (flag, body, properties)."""
    data = b""
    for flag, body, text in parts:
        properties = text.encode()
        size = _BATCH_HEAD.size + len(body) + 2 + len(properties)
        data += _BATCH_HEAD.pack(size, 0, 0, flag, len(body)) + body + struct.pack(">h", len(properties)) + properties
    return data


def send(ask: Asker, topic: str, body: bytes = b"hello", *, code: int = V2, **changes: Any) -> Command | None:
    """Send with fields of one letter, some of them changed; None leaves one out."""
    fields = {
        "a": "SP", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": BORN_MS, "h": 0,
        "i": props(UNIQ_KEY="K1", WAIT="true"), "j": 0, "k": False, "l": 16, "m": False, **changes,
    }  # fmt: skip
    return ask("broker", code, body, **{name: value for name, value in fields.items() if value is not None})


def send_quietly(ask: Asker, topic: str, body: bytes, properties: str, queue_id: int = 0) -> None:
    """Send without comparing the answer: a delayed message's offset is one of a queue that all tests share."""
    fields = {
        "a": "SP", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": str(BORN_MS), "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    answer = ask.connection("broker", "quiet").ask(Command(V2, fields, body))
    assert answer is not None
    assert answer.code == 0, answer


def pull(ask: Asker, topic: str, queue_id: int = 0, offset: int = 0, group: str = "TOOLS_CONSUMER") -> Command | None:
    """Read a queue as tools do."""
    return ask(
        "broker", PULL, consumerGroup=group, topic=topic, queueId=queue_id, queueOffset=offset, maxMsgNums=32,
        sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0, expressionType="TAG",
    )  # fmt: skip


def make_topic(ask: Asker, topic: str, **changes: Any) -> None:
    """Create a topic."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, **changes,
    }  # fmt: skip
    ask("broker", TOPIC, **fields)


def make_group(ask: Asker, group: str, **changes: Any) -> None:
    """Create a group."""
    ask("broker", GROUP, {
        "groupName": group, "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
        "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True, **changes,
    })  # fmt: skip


def log_offset(answer: Command | None) -> int:
    """Return where a message that was sent stands in the log."""
    assert answer is not None
    assert answer.code == 0, answer
    return int(answer.ext_fields["msgId"][-16:], 16)


def script_properties(ask: Asker) -> None:
    """What becomes of properties."""
    topic = ask.name("S-p")
    texts = [
        None, "", props(KEYS="a b"), props(WAIT="false", A="b"), props(POP_CK="x", A="b", UNIQ_KEY="k"),
        props(CLUSTER="x", UNIQ_KEY="k"), props(MSG_REGION="R", TRACE_ON="false", UNIQ_KEY="k"), "A\x01b", "garbage",
        "A\x01b\x02A\x01c\x02", "A\x01\x02", "\x01v\x02", "A\x01b\x01c\x02", props(TAGS="中文", KEYS="schlüssel 中"),
    ]  # fmt: skip
    for text in texts:
        send(ask, topic, i=text)
    send(ask, topic, h=7, j=3)
    send(ask, topic, f=1)
    send(ask, topic, "héß中".encode())
    await_stored(ask, topic, 0, len(texts) + 3)
    pull(ask, topic)


def script_missing_fields(ask: Asker) -> None:
    """Which fields a send needs, and what numbers may be."""
    topic = ask.name("S-m")
    for name in "dc":
        send(ask, topic, **{name: None})
    for name in "abcdefghijklm":
        send(ask, topic, **{name: None})
    for changes in ({"e": "x"}, {"e": 2**31}, {"f": 2**31}, {"j": "x"}, {"m": "yes"}, {"n": "broker-z"}, {"j": -1}):
        send(ask, topic, **changes)
    if ask.is_5:
        send(ask, topic, b"")


def script_long_names(ask: Asker) -> None:
    """SEND_MESSAGE with whole names."""
    topic = ask.name("S-l")
    fields = {
        "producerGroup": "SP", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0,
        "sysFlag": 0, "bornTimestamp": BORN_MS, "flag": 5, "properties": props(UNIQ_KEY="K1", TAGS="t"),
        "reconsumeTimes": 0, "unitMode": False, "batch": False,
    }  # fmt: skip
    ask("broker", V1, b"one", **fields)
    ask("broker", V1, b"two", **fields, maxReconsumeTimes=3)
    ask("broker", V1, batch((1, b"a", props(UNIQ_KEY="a"))), **{**fields, "batch": True})
    ask("broker", V1, b"three", **{**fields, "topic": ask.name("S a")})
    ask("broker", V1, b"three", a="SP", b=topic)
    await_stored(ask, topic, 0, 3)
    pull(ask, topic)


def script_auto_create(ask: Asker) -> None:
    """Topics that are made by sending to them."""
    for number, (default, count, queue_id) in enumerate([
        ("TBW102", 20, 0), ("TBW102", 0, 0), ("TBW102", -3, 0), ("TBW102", 2, 3), ("TBW102", 8, 7),
        ("DefaultCluster", 99, 15), (ask.name("S-none"), 4, 0),
    ]):  # fmt: skip
        topic = ask.name(f"S-{number}")
        send(ask, topic, c=default, d=count, e=queue_id)
        if ask.is_5:
            ask("broker", 351, topic=topic)
            ask("namesrv", 105, topic=topic, acceptStandardJsonOnly=True)  # 4.9 registers it a little later
    send(ask, ask.name("S-own"), c=ask.name("S-0"))
    send(ask, ask.name("S-unit"), k=True)
    if ask.is_5:
        ask("broker", 351, topic=ask.name("S-unit"))


def script_refused_topics(ask: Asker) -> None:
    """Names that are no names, and topics that nobody sends to."""
    for topic in (
        "S a", "S-ä", " ", "", "S.a", "S" * 128, "S" * 256, "%RETRY%" + "S" * 125, "%RETRY%" + "S" * 250, "%RETRY%S a",
        "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT", "TRANS_CHECK_MAX_TIME_TOPIC",
    ):  # fmt: skip
        send(ask, topic)


def script_queues_and_permissions(ask: Asker) -> None:
    """Queue ids, and permissions, which no broker asks for."""
    for perm in (0, 2, 4, 6):
        topic = ask.name(f"S-perm{perm}")
        make_topic(ask, topic, writeQueueNums=3, perm=perm)
        for queue_id in (0, 2, 3):
            send(ask, topic, e=queue_id)
    topic = ask.name("S-read5")
    make_topic(ask, topic, readQueueNums=5, writeQueueNums=3, order=True)
    for queue_id in (4, 5):
        send(ask, topic, e=queue_id)
    make_topic(ask, ask.name("S-one"), readQueueNums=1, writeQueueNums=1)
    for queue_id in (-1, -(2**31)):
        send(ask, ask.name("S-one"), e=queue_id)
    make_topic(ask, ask.name("S-multi"), topicFilterType="MULTI_TAG")
    send(ask, ask.name("S-multi"), i=props(TAGS="a b", UNIQ_KEY="m"))
    await_stored(ask, ask.name("S-multi"), 0, 1)
    pull(ask, ask.name("S-multi"))


def script_sizes(ask: Asker) -> None:
    """The longest bodies and properties."""
    topic = ask.name("S-s")
    for size in (4 * 1024 * 1024, 4 * 1024 * 1024 + 1):
        send(ask, topic, b"x" * size)
    for size in (32_000, 32_747, 32_767, 40_000):
        send(ask, topic, b"x", i="A\x01" + "x" * (size - 3) + "\x02")
    if ask.is_5:
        send(ask, topic, f=0xC0)
        send(ask, topic, i=props(UNIQ_KEY="k", INNER_NUM=2))
    send(ask, ask.name("S" * (127 - len(ask.suffix))))


def script_batches(ask: Asker) -> None:
    """Batches, good and bad."""
    topic = ask.name("S-b")
    two = batch((1, b"a", props(UNIQ_KEY="u1")), (2, b"b", props(UNIQ_KEY="u2", TAGS="t")))
    outer = props(UNIQ_KEY="B", WAIT="true", CLUSTER="x", X="y")
    three = batch(
        (1, b"a", props(UNIQ_KEY="b1", TAGS="t")), (2, b"bb", props(UNIQ_KEY="b2", KEYS="kk", WAIT="true")),
        (3, b"c", ""),
    )  # fmt: skip
    send(ask, topic, three, code=BATCH, i=outer, m=True, j=2, h=9)
    send(ask, topic, two, i=props(UNIQ_KEY="B2"))
    send(ask, topic, two, code=BATCH, i=props(UNIQ_KEY="B2"))
    send(ask, topic, two, m=True, i="")
    send(ask, topic, two, code=BATCH, m=True, i="", f=1)
    send(ask, topic, batch((1, b"a", "A\x01b"), (1, b"b", "A\x01b\x02B\x01c")), code=BATCH, m=True, i="")
    send(ask, topic, batch((1, b"", props(A="1")), (1, b"", props(A="2"))), code=BATCH, m=True, i="")
    send(ask, topic, batch((1, b"a", props(DELAY=1)), (1, b"b", props(DELAY="x"))), code=BATCH, m=True, i="")
    send(ask, topic, batch((1, b"a", props(TRAN_MSG="true")), (1, b"b", "")), code=BATCH, m=True, i="")
    for body in (b"garbagegarbagegarbagegarbage", two[:-3], two + b"\0\0", b""):
        send(ask, topic, body, code=BATCH, m=True, i="")
    send(ask, topic, two, code=BATCH, m=True, i=props(DELAY=1))
    send(ask, topic, two, code=BATCH, m=True, i="", e=9)
    send(ask, topic, two, code=BATCH, m=True, i="", f=4)
    send(ask, "S a", two, code=BATCH, m=True)
    send(ask, "SELF_TEST_TOPIC", two, code=BATCH, m=True)
    send(ask, f"%DLQ%{ask.name('S-b')}", two, code=BATCH, m=True)
    if ask.is_5:
        send(ask, f"%RETRY%{ask.name('S-b')}", two, code=BATCH, m=True)
    await_stored(ask, topic, 0, 15)
    pull(ask, topic)


def script_retry_sends(ask: Asker) -> None:
    """What clients send to retry topics themselves."""
    group = ask.name("S-r")
    retry, dead = f"%RETRY%{group}", f"%DLQ%{group}"
    for changes in ({"j": 1, "l": 3}, {"j": 3, "l": 3}, {"j": 4, "l": 3}, {"j": 15, "l": None}, {"j": 17, "l": None}):
        send(ask, retry, str(changes).encode(), **changes)
    late = {"DELAY": 1} if ask.is_5 else {}  # 4.9 lets it wait on its way to the dead letters
    send(ask, retry, b"late", j=9, l=3, e=3, i=props(UNIQ_KEY="O1", RETRY_TOPIC="T", **late))
    send(ask, retry, b"far", e=9)
    send(ask, dead, b"direct", i=props(UNIQ_KEY="d"))
    send(ask, f"%RETRY%{ask.name('S-r2')}", c=ask.name("S-none"), j=1, l=3)
    send(ask, f"%DLQ%{ask.name('S-r2')}", c=ask.name("S-none"))
    send(ask, f"%RETRY%{ask.name('S-r3')}", c=ask.name("S-none"), j=1, l=3, k=True)
    queue = {"topic": ask.name("S-t"), "brokerName": "broker-a", "queueId": 0}
    ask("broker", 41, {"clientId": "c1", "consumerGroup": group, "mqSet": [queue]})
    send(ask, retry, b"locked", j=1, l=3, i=props(UNIQ_KEY="UL"))
    ask("broker", 42, {"clientId": "c1", "consumerGroup": group, "mqSet": [queue]})
    send(ask, retry, b"unlocked", j=1, l=3, i=props(UNIQ_KEY="UU"))
    await_stored(ask, retry, 0, 4)
    await_stored(ask, dead, 0, 5)
    pull(ask, retry)
    pull(ask, dead)
    if ask.is_5:
        for name in (retry, dead, f"%RETRY%{ask.name('S-r3')}"):
            ask("broker", 351, topic=name)


def script_send_back(ask: Asker) -> None:
    """Send-back: retries with their levels, dead letters, all that is refused or lost."""
    topic, group = ask.name("S-t"), ask.name("S-g")
    offset = log_offset(send(ask, topic, b"first", i=props(UNIQ_KEY="U1", TAGS="tg", WAIT="true", KEYS="kx")))

    def back(**changes: Any) -> None:
        fields = {
            "offset": offset, "group": group, "delayLevel": 0, "originMsgId": "U1", "originTopic": topic,
            "unitMode": False, "maxReconsumeTimes": 16, **changes,
        }  # fmt: skip
        ask("broker", BACK, **{name: value for name, value in fields.items() if value is not None})

    for changes in (
        {"delayLevel": 1}, {"delayLevel": -1}, {"maxReconsumeTimes": 0}, {"offset": None}, {"offset": 10**15},
        {"offset": -1}, {"group": None}, {"delayLevel": None}, {"group": "S a"}, {"group": "S" * 121}, {"group": ""},
        {"originMsgId": None, "unitMode": None, "delayLevel": -1},
        {"maxReconsumeTimes": None, "delayLevel": 2}, {"delayLevel": 99}, {},
    ):  # fmt: skip
        back(**changes)
    if ask.is_5:
        back(originTopic=None, delayLevel=-1)
    for number, config in enumerate([
        {"retryQueueNums": 0}, {"retryQueueNums": -1}, {"consumeEnable": False}, {"retryMaxTimes": 0},
    ]):  # fmt: skip
        make_group(ask, ask.name(f"S-g{number}"), **config)
        back(group=ask.name(f"S-g{number}"), maxReconsumeTimes=None, delayLevel=1)
    make_topic(ask, f"%RETRY%{ask.name('S-ro')}", perm=4)
    back(group=ask.name("S-ro"))
    make_topic(ask, f"%DLQ%{ask.name('S-dro')}", perm=4, readQueueNums=1, writeQueueNums=1)
    back(group=ask.name("S-dro"), delayLevel=-1)
    retry, dead = f"%RETRY%{group}", f"%DLQ%{group}"
    await_stored(ask, dead, 0, 3)
    await_stored(ask, f"%DLQ%{ask.name('S-g3')}", 0, 1)
    await_stored(ask, retry, 0, 1)
    pull(ask, dead)
    pull(ask, f"%DLQ%{ask.name('S-g3')}")
    pull(ask, f"%DLQ%{ask.name('S-dro')}")
    first = pull(ask, retry)
    assert first is not None
    assert first.code == 0
    back(offset=int.from_bytes(first.body[28:36], "big"), delayLevel=1)
    await_stored(ask, retry, 0, 2)
    pull(ask, retry, offset=1)


def script_delays(ask: Asker) -> None:
    """Delay levels: what is delayed, what is not, and what comes out."""
    topic = ask.name("S-d")
    for level in ("0", "-1", "x", "1.5", " 1", "2147483648"):
        send(ask, topic, f"level {level}".encode(), e=1, i=props(UNIQ_KEY="D", DELAY=level, WAIT="true", TAGS="t"))
    for level in ("1", "01"):
        properties = props(UNIQ_KEY="D", DELAY=level, WAIT="true", TAGS="t")
        send_quietly(ask, topic, f"level {level}".encode(), properties, 1)
    await_stored(ask, topic, 1, 4)
    pull(ask, topic, 1)


def script_timer_checks(ask: Asker) -> None:
    """Any-time delays: what waits, what comes at once, what can't be; 4.9 knows none of it."""
    topic = ask.name("S-w")
    cases: list[dict[str, object]] = [
        {"TIMER_DELIVER_MS": 1000}, {"TIMER_DELAY_SEC": 0}, {"TIMER_DELAY_SEC": -5}, {"TIMER_DELAY_SEC": "x"},
        {"TIMER_DELAY_SEC": 259_201}, {"TIMER_DELAY_SEC": 999_999_999_999}, {"TIMER_DELAY_SEC": 1, "TIMER_OUT_MS": 5},
        {"TIMER_DELIVER_MS": 1000, "TIMER_DEL_UNIQKEY": "x"},
    ]  # fmt: skip
    for number, case in enumerate(cases):
        send(ask, topic, f"case {number}".encode(), i=props(UNIQ_KEY=f"T{number}", TAGS="t", **case))
    send_quietly(ask, topic, b"both", props(UNIQ_KEY="T9", TIMER_DELAY_SEC=2, DELAY=1))
    await_stored(ask, topic, 0, 5 if ask.is_5 else 9)
    pull(ask, topic)
    ask("broker", 370, producerGroup="SP", topic=topic, recallHandle="x")


def script_delays_of_any_time(ask: Asker) -> None:
    """What comes out of 5.x's timers: each way to say when, a batch's refusal, one recalled; 4.9 delivers at once."""
    topic = ask.name("S-w")
    now_ms = int(time.time() * 1000)
    for number, case in enumerate((
        # Further apart than a second, the timers' precision: what falls into one comes out in any order.
        {"TIMER_DELAY_SEC": 1}, {"TIMER_DELAY_MS": 2100}, {"TIMER_DELIVER_MS": now_ms + 3500},
        {"TIMER_DELAY_SEC": 5, "TAGS": "late", "KEYS": "k1 k2", "own": "o"},
    )):  # fmt: skip
        send_quietly(ask, topic, b"case %d" % number, props(UNIQ_KEY=f"T{number}", WAIT="true", **case))
    await_stored(ask, topic, 0, 4)
    pull(ask, topic)
    if not ask.is_5:
        return
    ask("broker", 25, b"recallMessageEnable=true")
    fields = {
        "a": "SP", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": str(BORN_MS), "h": "0",
        "i": props(UNIQ_KEY="R1", TIMER_DELAY_SEC=4), "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    answer = ask.connection("broker", "quiet").ask(Command(V2, fields, b"recalled"))
    assert answer is not None
    handle = answer.ext_fields["recallHandle"]
    ask("broker", 370, producerGroup="SP", topic=ask.name("S-other"), recallHandle=handle)
    ask("broker", 370, producerGroup="SP", topic=topic, recallHandle=handle)
    send_quietly(ask, topic, b"the last", props(UNIQ_KEY="T5", TIMER_DELAY_SEC=6))
    await_stored(ask, topic, 0, 5)
    pull(ask, topic, offset=4)


script_delays_of_any_time.waits = True  # type: ignore[attr-defined]


def script_delay_offsets(ask: Asker) -> None:
    """How many of each delay level came out; all scripts use the same levels."""
    topic = ask.name("S-o")
    send_quietly(ask, topic, b"late", props(UNIQ_KEY="D", DELAY=1))
    await_stored(ask, topic, 0, 1)
    ask("broker", 45)


def script_queries(ask: Asker) -> None:
    """Messages by key, unique key and tag; and by their place in the log."""
    topic = ask.name("S-q")
    for number in range(5):
        keys = f"k all k{number} " + ("x" if number == 2 else "")
        answer = send(ask, topic, b"m%d" % number, i=props(UNIQ_KEY=f"QU{number}", KEYS=keys, TAGS="t"), e=number % 2)
    send(ask, topic, b"twice", i=props(UNIQ_KEY="QU0", KEYS="all all"))
    two = batch((1, b"b0", props(UNIQ_KEY="QB0", KEYS="bk")), (2, b"b1", props(UNIQ_KEY="QB1", KEYS="bk")))
    send(ask, topic, two, code=BATCH, m=True, i="")
    await_stored(ask, topic, 0, 6)
    time.sleep(0.5)  # real brokers index a little later than they build their queues
    far_ms = int(time.time() * 1000) + 100_000

    def query(key: str | None, **changes: Any) -> None:
        fields = {"topic": topic, "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": far_ms, **changes}
        ask("broker", QUERY, **{name: value for name, value in fields.items() if value is not None})

    for key in ("all", "k1", "k", "QU0", "x", "nope", "", "bk", "QB1", "t", None):
        query(key)
    for changes in (
        {"maxNum": 2}, {"maxNum": 0}, {"maxNum": -1}, {"maxNum": None}, {"maxNum": 1000}, {"topic": None},
        {"topic": "S-unknown"}, {"beginTimestamp": None}, {"endTimestamp": None}, {"beginTimestamp": far_ms},
        {"endTimestamp": 1}, {"beginTimestamp": far_ms, "endTimestamp": 0},
        {"maxNum": 1, "_UNIQUE_KEY_QUERY": "true"}, {"maxNum": 1, "_UNIQUE_KEY_QUERY": "false"},
        {"indexType": "K"}, {"indexType": "U"}, {"indexType": "X"}, {"maxNum": 2, "indexType": "K", "lastKey": "x"},
    ):  # fmt: skip
        query("all", **changes)
    if ask.is_5:
        query("t", indexType="T")
        query("T#t")
    offset = log_offset(answer)
    for fields in (
        {"offset": offset}, {"offset": offset, "topic": "S-unknown"}, {"offset": -1},
        {"offset": 10**14}, {}, {"offset": "x"},
    ):  # fmt: skip
        ask("broker", VIEW, **fields)

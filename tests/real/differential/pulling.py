"""Pulls: every check in its order, every status, filters, long polling, the commit flag; and offsets."""

from __future__ import annotations

import struct
import time
from typing import Any

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command

from .asker import Asker, Exchange

PULL, LITE_PULL = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE
SEND, TOPIC, GROUP = RequestCode.SEND_MESSAGE_V2, RequestCode.UPDATE_AND_CREATE_TOPIC, 200
MAX_OFFSET, MIN_OFFSET, SEARCH = 30, 31, 29
# The flags of a pull: commit, wait, own subscription.
COMMIT, WAIT, OWN = 1, 2, 4


def send(ask: Asker, topic: str, *bodies: str, queue_id: int = 0, tags: str = "", **properties: str) -> None:
    """Send messages, with the topic made on the first of them, and wait until they can be read."""
    texts = {"TAGS": tags, **properties} if tags else properties
    text = "".join(f"{key}\x01{value}\x02" for key, value in texts.items())
    for body in bodies:
        answer = ask(
            "broker", SEND, body.encode(), client="sender", a=ask.name("PP"), b=topic, c="TBW102", d=2, e=queue_id,
            f=0, g=1_700_000_000_000, h=0, i=text, j=0, k=False,
        )  # fmt: skip
        assert answer is not None, "the send was not answered"
        assert answer.code == 0, answer
        await_stored(ask, topic, queue_id, int(answer.ext_fields["queueOffset"]) + 1)


def await_stored(ask: Asker, topic: str, queue_id: int, offset: int) -> None:
    """Wait until a queue's end is where it should be: real brokers build their queues a little later."""
    request = Command(MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    for _ in range(1000):
        answer = ask.connection("broker", "watcher").ask(request)
        assert answer is not None, "the broker does not answer"
        if int(answer.ext_fields["offset"]) >= offset:
            return
        time.sleep(0.01)
    raise AssertionError("the messages did not come")


def pull_fields(topic: str, group: str, changes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the fields of a pull as clients write them, with some of them changed; None leaves one out."""
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": OWN,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
        **more, **(changes or {}),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def heartbeat(ask: Asker, client_id: str, group: str, *topics: Any, client: str = "one", **more: Any) -> Command | None:
    """Send the heartbeat of a member; a topic is a name, or a whole subscription."""
    return ask("broker", 34, heartbeat_body(client_id, group, *topics, **more), client=client)


def heartbeat_body(client_id: str, group: str, *topics: Any, top: Any = None, **more: Any) -> dict[str, Any]:
    """Return a heartbeat's body; `top` are changes of its outermost fields."""
    items = [topic if isinstance(topic, dict) else subscription(topic) for topic in topics]
    data = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": group,
        "messageModel": "CLUSTERING", "subscriptionDataSet": items, "unitMode": False, **more,
    }  # fmt: skip
    return {"clientID": client_id, "consumerDataSet": [data], "producerDataSet": [], **(top or {})}


def subscription(topic: str, expression: str = "*", version: int = 1, **more: Any) -> dict[str, Any]:
    """Return one topic's subscription as Java clients write it."""
    tags = [] if expression == "*" else [tag.strip() for tag in expression.split("||")]
    return {
        "classFilterMode": False, "codeSet": [_java_hash(tag) for tag in tags], "expressionType": "TAG",
        "subString": expression, "subVersion": version, "tagsSet": tags, "topic": topic, **more,
    }  # fmt: skip


def _java_hash(text: str) -> int:
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def sql(topic: str, expression: str, version: int = 1, **more: Any) -> dict[str, Any]:
    """Return one topic's SQL92 subscription."""
    return subscription(topic, expression, version, **{"expressionType": "SQL92", "codeSet": [], "tagsSet": [], **more})


def script_pull_statuses(ask: Asker) -> None:
    """Every status that a read can end in, and where it says to go on."""
    topic, group = ask.name("PStatus"), ask.name("PG")
    send(ask, topic, "one", "two", "three")
    for offset in (0, 1, 2, 3, 4, 99, -1, 2**40):
        ask("broker", PULL, **pull_fields(topic, group, queueOffset=offset))
    for count in (0, -1, 1, 2, 1000):
        ask("broker", PULL, **pull_fields(topic, group, maxMsgNums=count))
    # A queue that nothing was ever stored in.
    for offset in (0, 5, -1):
        ask("broker", PULL, **pull_fields(topic, group, queueId=1, queueOffset=offset))
    for expression in ("TagX", "TagX || TagY"):
        ask("broker", PULL, **pull_fields(topic, group, subscription=expression))
        ask("broker", PULL, **pull_fields(topic, group, subscription=expression, queueOffset=3))
    if ask.is_5:
        ask("broker", LITE_PULL, **pull_fields(topic, group))
        ask("broker", LITE_PULL, **pull_fields(topic, group, queueOffset=3))
    ask("broker", PULL, **pull_fields(topic, "TOOLS_CONSUMER"))


def script_pull_checks(ask: Asker) -> None:
    """What a pull is refused for, one thing after the other."""
    topic, group = ask.name("PChecks"), ask.name("PChecksG")
    send(ask, topic, "one")
    ask("broker", PULL, **pull_fields(ask.name("PNone"), group))
    for queue_id in (-1, 2, 99):
        ask("broker", PULL, **pull_fields(topic, group, queueId=queue_id))
    for expression in ("", "||", " ", "|| ||", "*", " * ", "a||", "||a"):
        ask("broker", PULL, **pull_fields(topic, group, subscription=expression))
    ask("broker", PULL, **pull_fields(topic, group, subscription=None))
    ask("broker", PULL, **pull_fields(topic, group, expressionType=None))
    for kind in ("", "tag", "NONE"):
        ask("broker", PULL, **pull_fields(topic, group, expressionType=kind))
    if ask.is_5:
        # 4.9 makes a group of any name.
        for name in ("P bad!", "x" * 256):
            ask("broker", PULL, **pull_fields(topic, name))
    # Without a subscription of its own.
    ask("broker", PULL, **pull_fields(topic, group, sysFlag=0))
    heartbeat(ask, "p1", group, ask.name("PElse"))
    ask("broker", PULL, **pull_fields(topic, group, sysFlag=0))
    heartbeat(ask, "p1", group, subscription(topic, "*", 100))
    for version in (99, 100, 101):
        ask("broker", PULL, **pull_fields(topic, group, sysFlag=0, subVersion=version))


def script_pull_missing_fields(ask: Asker) -> None:
    """Fields that are missing, or no numbers."""
    topic, group = ask.name("PMissing"), ask.name("PMissingG")
    send(ask, topic, "one")
    names = list(pull_fields(topic, group))
    for name in names:
        ask("broker", PULL, **pull_fields(topic, group, {name: None}))
    for name in (
        "queueId",
        "queueOffset",
        "maxMsgNums",
        "sysFlag",
        "commitOffset",
        "suspendTimeoutMillis",
        "subVersion",
    ):
        ask("broker", PULL, **pull_fields(topic, group, {name: "x"}))
    for name in ("queueId", "maxMsgNums", "sysFlag"):
        for number in (2**31, -(2**31) - 1):
            ask("broker", PULL, **pull_fields(topic, group, {name: number}))


def script_tag_filters(ask: Asker) -> None:
    """Messages of several tags, filtered by a pull's own subscription and by a heartbeat's."""
    topic, group = ask.name("PTags"), ask.name("PTagsG")
    for number in range(6):
        send(ask, topic, str(number), tags=("TagA", "TagB", "")[number % 3])
    # The last two have one hash.
    send(ask, topic, "6", tags="Aa")
    send(ask, topic, "7", tags="BB")
    for expression in ("TagA", "TagA||TagB", " TagA  ||  TagB ", "*", "BB", "TagC"):
        for count in (32, 1):
            ask("broker", PULL, **pull_fields(topic, group, subscription=expression, maxMsgNums=count))
    for item in (
        subscription(topic, "TagA", 10), subscription(topic, "TagA", 11, codeSet=[]),
        subscription(topic, "TagA", 12, tagsSet=[]), subscription(topic, "*", 13, codeSet=[1]),
        subscription(topic, "TagA", 14, classFilterMode=True), subscription(topic, "", 15),
        subscription(topic, "TagA", 16, expressionType=""),
    ):  # fmt: skip
        heartbeat(ask, "p1", group, item)
        ask("broker", PULL, **pull_fields(topic, group, sysFlag=0, subVersion=1))


def script_sql_filters(ask: Asker) -> None:
    """SQL92, by a pull's own subscription and by a heartbeat's; wrong expressions, and filter data of versions."""
    topic, group = ask.name("PSql"), ask.name("PSqlG")
    for number in range(4):
        send(ask, topic, str(number), tags="TagA" if number % 2 else "TagB", n=str(number), color="red")
    send(ask, topic, "plain")
    for expression in (
        "n > 1", "n > 1 AND color = 'red'", "n IS NULL", "TAGS = 'TagA'", "n BETWEEN 1 AND 2", "n IN ('1', '3')",
        "TAGS IS NOT NULL AND NOT (n = 0 OR n = 1)", "color", "TRUE", "n > 'x'", "n >", "", "color > 5",
    ):  # fmt: skip
        fields = pull_fields(topic, group, subscription=expression, expressionType="SQL92")
        ask("broker", PULL, **fields)
        ask("broker", 46, {"clientId": "p1", "group": group, "subscriptionData": sql(topic, expression)})
    ask("broker", PULL, **pull_fields(topic, group, subscription=None, expressionType="SQL92"))
    own = {"sysFlag": 0, "subVersion": 5}
    for item in (
        sql(topic, "n > 2", 10), sql(topic, "n > 1", 9), sql(topic, "n > 0", 10), sql(topic, "n >", 11),
        sql(topic, "n = 0", 12), subscription(topic, "TagA", 13), sql(topic, "n = 1", 13), sql(topic, "", 14),
    ):  # fmt: skip
        heartbeat(ask, "p1", group, item)
        for version in (5, 10, 11, 13):
            ask("broker", PULL, **pull_fields(topic, group, own, subVersion=version))
    # A group's filter data outlive its members and its topics.
    other = ask.name("PSqlG2")
    heartbeat(ask, "p1", other, sql(topic, "n = 3", 20))
    ask("broker", 35, clientID="p1", consumerGroup=other)
    heartbeat(ask, "p1", other, sql(topic, "n = 2", 19))
    ask("broker", PULL, **pull_fields(topic, other, own))
    ask("broker", PULL, **pull_fields(topic, other, own, subVersion=20))
    heartbeat(ask, "p1", other, sql(topic, "n >", 21))
    ask("broker", PULL, **pull_fields(topic, other, own))


def script_check_client_config(ask: Asker) -> None:
    """CHECK_CLIENT_CONFIG with odd bodies."""
    good = {"clientId": "p1", "group": ask.name("PG"), "namespace": ""}
    for item in (
        subscription("T", "TagA"), subscription("T", "||"), sql("T", "a = 1"), sql("T", "a ="),
        sql("T", "a = 1", expressionType="NONE"), sql("T", "a", expressionType=""), sql("T", "1"), sql("T", "'x'"),
        sql("T", "a BETWEEN 2 AND 1"), sql("T", "a IN (1)"), None, {},
    ):  # fmt: skip
        ask("broker", 46, {**good, "subscriptionData": item})
    ask("broker", 46, {})
    ask("broker", 46)
    ask("broker", 46, b"not json")


def script_commit_flag(ask: Asker) -> None:
    """A pull's commit flag stores its offset, whatever the pull ends in; a refused one stores none."""
    topic, group = ask.name("PCommit"), ask.name("PCommitG")
    send(ask, topic, "one")
    for number, changes in enumerate((
        {}, {"queueOffset": 1}, {"queueOffset": 9}, {"subscription": "TagX"}, {"sysFlag": OWN}, {"queueId": 7},
        {"subscription": "||"}, {"commitOffset": -1}, {"commitOffset": 10**9}, {"sysFlag": COMMIT},
    )):  # fmt: skip
        fields = pull_fields(topic, group, {"sysFlag": OWN | COMMIT, "commitOffset": 100 + number, **changes})
        ask("broker", PULL, **fields)
        ask("broker", 14, consumerGroup=group, topic=topic, queueId=0)


def script_long_poll(ask: Asker) -> None:
    """A pull that waits is answered when a message comes that it wants, and commits once."""
    topic, group = ask.name("PWait"), ask.name("PWaitG")
    send(ask, topic, "one", tags="TagA")
    fields = pull_fields(topic, group, {"sysFlag": OWN | WAIT | COMMIT, "suspendTimeoutMillis": 15000})
    waiting = hold(ask, fields | {"queueOffset": 1, "subscription": "TagA", "commitOffset": 1})
    ask("broker", 14, consumerGroup=group, topic=topic, queueId=0)
    ask("broker", 15, consumerGroup=group, topic=topic, queueId=0, commitOffset=77)
    send(ask, topic, "two", tags="TagB")
    send(ask, topic, "three", tags="TagA")
    record(ask, waiting)
    ask("broker", 14, consumerGroup=group, topic=topic, queueId=0)
    # Nothing waits that has something to be told.
    ask("broker", PULL, **(fields | {"queueOffset": 9}))
    ask("broker", PULL, **(fields | {"queueOffset": 0, "subscription": "TagX"}))
    ask("broker", PULL, **(fields | {"queueOffset": 0, "subscription": "||"}))
    # SQL92 wakes for what passes.
    expression = {"expressionType": "SQL92", "subscription": "n = 2", "queueOffset": 3}
    waiting = hold(ask, fields | expression)
    send(ask, topic, "four", n="1")
    send(ask, topic, "five", n="2")
    record(ask, waiting)
    # A topic that is deleted meanwhile.
    waiting = hold(
        ask, pull_fields(topic, group, {"sysFlag": OWN | WAIT, "suspendTimeoutMillis": 1000, "queueOffset": 5})
    )
    ask("broker", 215, topic=topic)
    record(ask, waiting)


def script_reset_marks(ask: Asker) -> None:
    """What a reset on the broker leaves for the next pull, and what is ignored until then."""
    topic, group = ask.name("PMark"), ask.name("PMarkG")
    send(ask, topic, "one", "two", "three")
    ask("broker", GROUP, {"groupName": group})
    reset = {"group": group, "topic": topic, "isForce": True, "timestamp": 0}
    stored = {"consumerGroup": group, "topic": topic, "queueId": 0}
    ask("broker", 15, commitOffset=2, **stored)
    for flags in (OWN, OWN | COMMIT, OWN | WAIT):
        ask("broker", 222, queueId=0, offset=1, **reset)
        ask("broker", 15, commitOffset=3, **stored)
        ask("broker", 14, **stored)
        # A pull that is refused takes no mark, one of another queue neither.
        ask("broker", PULL, **pull_fields(topic, group, sysFlag=flags, subscription="||", commitOffset=3))
        ask("broker", PULL, **pull_fields(topic, group, queueId=1, commitOffset=3))
        fields = pull_fields(topic, group, sysFlag=flags, queueOffset=3, commitOffset=3, suspendTimeoutMillis=1000)
        ask("broker", PULL, **fields)
        ask("broker", 14, **stored)
        ask("broker", PULL, **pull_fields(topic, group, sysFlag=OWN, queueOffset=1))
        ask("broker", 15, commitOffset=3, **stored)
        ask("broker", 14, **stored)


script_reset_marks.since_5 = True  # type: ignore[attr-defined]


def script_scan_limit(ask: Asker) -> None:
    """A pull looks at 800 messages, then says how far it got."""
    topic, group = ask.name("PScan"), ask.name("PScanG")
    send(ask, topic, "first", tags="TagA")
    for _ in range(2):
        send_batch(ask, topic, ["x"] * 600)
    send(ask, topic, "last", tags="TagA")
    await_stored(ask, topic, 0, 1202)
    for offset in (0, 1, 401, 402, 403, 801, 1201):
        for expression in ("TagA", "TagX"):
            ask("broker", PULL, **pull_fields(topic, group, queueOffset=offset, subscription=expression))
    ask("broker", PULL, **pull_fields(topic, group, queueOffset=1, subscription="TagA", maxMsgNums=1000))
    fields = {"expressionType": "SQL92", "subscription": "TAGS = 'TagA'", "queueOffset": 1}
    ask("broker", PULL, **pull_fields(topic, group, fields))


def script_batch_limits(ask: Asker) -> None:
    """A pull takes 256 KiB and 32 messages at most; the first message always comes."""
    topic, group = ask.name("PBig"), ask.name("PBigG")
    for size in (100_000, 100_000, 100_000, 300_000, 10, 100_000):
        send(ask, topic, "x" * size)
    send_batch(ask, topic, ["y"] * 40)
    await_stored(ask, topic, 0, 46)
    for offset in (0, 1, 2, 3, 4, 5, 6):
        for count in (2, 32, 40):
            ask("broker", PULL, **pull_fields(topic, group, queueOffset=offset, maxMsgNums=count))


def send_batch(ask: Asker, topic: str, bodies: list[str]) -> None:
    """Send messages at once, to a topic that exists."""
    parts = (body.encode() for body in bodies)
    data = b"".join(struct.pack(">iiiii", 22 + len(part), 0, 0, 0, len(part)) + part + b"\0\0" for part in parts)
    fields = {"a": ask.name("PP"), "b": topic, "c": "TBW102", "d": 2, "e": 0, "f": 0, "g": 1_700_000_000_000, "h": 0}
    ask("broker", 320, data, client="sender", i="", j=0, k=False, m=True, **fields)


def hold(ask: Asker, fields: dict[str, Any]) -> dict[str, Any]:
    """Send a pull that is not answered at once, over a connection of its own."""
    connection = ask.connection("broker", "waiting")
    texts = {name: str(value) for name, value in fields.items()}
    connection.socket.sendall(connection.protocol.send_request(Command(PULL, texts, language="JAVA"))[1])
    time.sleep(0.4)  # until a busy broker has taken it
    return fields


def record(ask: Asker, fields: dict[str, Any]) -> None:
    """Keep the answer of a pull that was held."""
    connection = ask.connection("broker", "waiting")
    connection.socket.settimeout(20)
    while (event := connection.protocol.next_event()) is None:
        data = connection.socket.recv(1 << 16)
        assert data, "the broker closed the connection"
        connection.protocol.receive_data(data)
    texts = {name: str(value) for name, value in fields.items()}
    ask.exchanges.append(Exchange("broker", PULL, texts, event.command))

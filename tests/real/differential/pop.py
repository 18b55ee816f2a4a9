"""Pops and what belongs to them, in the order of what may go wrong; assignments by pull and pop. Only 5.x has them."""

from __future__ import annotations

import base64
import time
from typing import Any

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command

from .asker import Asker, Exchange

POP, ACK, BATCH_ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE
PEEK, CHANGE = RequestCode.PEEK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME
NOTIFICATION, POLLING_INFO = RequestCode.NOTIFICATION, RequestCode.POLLING_INFO
ASSIGNMENT, SET_MODE, MODES = 400, 401, 402
SEND, TOPIC, GROUP, OFFSET, MAX_OFFSET = RequestCode.SEND_MESSAGE_V2, 17, 200, 14, 30

_BROKER_NAME = "broker-a"
# A real broker stores the offset of a pop a little later.
_SETTLE_S = 0.3


def now_ms() -> int:
    return int(time.time() * 1000)


def make_topic(ask: Asker, topic: str, queue_count: int = 1, perm: int = 6) -> None:
    ask(
        "broker", TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=queue_count, writeQueueNums=queue_count,
        perm=perm, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False,
    )  # fmt: skip


def make_group(ask: Asker, group: str, **changes: Any) -> None:
    ask(
        "broker",
        GROUP,
        {"groupName": group, "retryQueueNums": 1, "retryMaxTimes": 16, "consumeEnable": True, **changes},
    )


def send(ask: Asker, topic: str, *bodies: str, queue_id: int = 0, tags: str = "") -> None:
    """Send messages and wait until they can be read: real brokers build their queues a little later."""
    for body in bodies:
        answer = ask(
            "broker", SEND, body.encode(), a=ask.name("PP"), b=topic, c="TBW102", d=2, e=queue_id, f=0,
            g=1_700_000_000_000, h=0, i=f"TAGS\x01{tags}\x02" if tags else "", j=0, k=False,
        )  # fmt: skip
        assert answer is not None
        assert answer.code == 0, answer.remark
        end = int(answer.ext_fields["queueOffset"]) + 1
        request = Command(MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
        for _ in range(200):
            seen = ask.connection("broker", "watcher").ask(request, 5.0)
            if seen is not None and int(seen.ext_fields["offset"]) >= end:
                break
            time.sleep(0.01)


def pop_fields(topic: str, group: str, /, **changes: Any) -> dict[str, Any]:
    """Return a pop's fields as clients write them; None leaves one out."""
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0,
        "bornTime": now_ms(), "initMode": 0, **changes,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def pop(ask: Asker, topic: str, group: str, /, **changes: Any) -> Command:
    answer = ask("broker", POP, **pop_fields(topic, group, **changes))
    assert answer is not None
    return answer


def handle(popped: Command, queue_offset: int, *, start_offset: int = 0, queue_id: int = 0, flag: int = 0) -> str:
    """Return a message's receipt handle as clients build it."""
    fields = popped.ext_fields
    return (
        f"{start_offset} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} {flag} {_BROKER_NAME} "
        f"{queue_id} {queue_offset}"
    )


def ack(ask: Asker, topic: str, group: str, queue_offset: int, text: str, /, **changes: Any) -> None:
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "offset": queue_offset, "extraInfo": text, **changes
    }  # fmt: skip
    ask("broker", ACK, **{name: value for name, value in fields.items() if value is not None})


def change(ask: Asker, topic: str, group: str, queue_offset: int, text: str, /, **changes: Any) -> Command | None:
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "offset": queue_offset, "extraInfo": text,
        "invisibleTime": 30_000, **changes,
    }  # fmt: skip
    return ask("broker", CHANGE, **{name: value for name, value in fields.items() if value is not None})


def stored_offset(ask: Asker, topic: str, group: str, *, settle_s: float = _SETTLE_S) -> None:
    time.sleep(settle_s)
    ask("broker", OFFSET, consumerGroup=group, topic=topic, queueId=0, setZeroIfNotFound=False)


def script_pop_refusals(ask: Asker) -> None:
    topic, group, closed, disabled = (ask.name(text) for text in ("PopT", "PopG", "PopClosed", "PopDisabled"))
    if not ask.is_5:
        ask("broker", POP, **pop_fields(topic, group))
        return
    pop(ask, topic, group)
    make_topic(ask, topic)
    make_topic(ask, closed, perm=2)
    make_group(ask, disabled, consumeEnable=False)
    for changes in (
        {"maxMsgNums": 33}, {"maxMsgNums": -1}, {"queueId": 1}, {"queueId": -2}, {"bornTime": now_ms() - 60_000},
        {"bornTime": 0}, {"bornTime": "x"}, {"bornTime": now_ms() + 60_000}, {"exp": "||", "expType": "TAG"},
        {"exp": "a >", "expType": "SQL92"}, {"exp": "*", "expType": "X"}, {"exp": "TagA"}, {"maxMsgNums": 0},
        {"invisibleTime": 0}, {"order": "x"}, {"initMode": 7},
        # What is found first of several faults.
        {"maxMsgNums": 33, "topic": ask.name("PopNone")}, {"queueId": 1, "consumerGroup": disabled},
        {"exp": "||", "consumerGroup": disabled}, {"maxMsgNums": 33, "bornTime": 1},
    ):  # fmt: skip
        pop(ask, topic, group, **changes)
    for name in pop_fields(topic, group):
        pop(ask, topic, group, **{name: None})
    pop(ask, closed, group)
    pop(ask, topic, disabled)


def script_pop(ask: Asker) -> None:
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic)
    pop(ask, topic, group, queueId=-1)
    stored_offset(ask, topic, group)
    send(ask, topic, "a", "c", tags="TagA")
    send(ask, topic, "b", tags="TagB")
    pop(ask, topic, group, maxMsgNums=2)
    stored_offset(ask, topic, group)
    pop(ask, topic, group, queueId=-1)
    pop(ask, topic, group)
    stored_offset(ask, topic, group)
    for number, changes in enumerate((
        {"exp": "TagB", "expType": "TAG"}, {"exp": "TagA || TagB"}, {"exp": "TagZ"}, {"exp": "*"}, {"initMode": 1},
        {"exp": "TAGS = 'TagB'", "expType": "SQL92"}, {"initMode": 7},
    )):  # fmt: skip
        other = ask.name(f"Pop{number}G")
        pop(ask, topic, other, **changes)
        stored_offset(ask, topic, other)
    # An offset that can't be.
    ask("broker", 15, consumerGroup=group, topic=topic, queueId=0, commitOffset=99)
    pop(ask, topic, group)
    stored_offset(ask, topic, group)
    ask("broker", RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic=topic)


script_pop.waits = True  # type: ignore[attr-defined]


def script_pop_of_all_queues(ask: Asker) -> None:
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic, 4)
    send(ask, topic, "a", "b", "c", queue_id=2)
    pop(ask, topic, group, queueId=-1, maxMsgNums=2)
    pop(ask, topic, group, queueId=1)
    pop(ask, topic, group, queueId=-1)
    pop(ask, topic, group, queueId=-1)


def script_acks(ask: Asker) -> None:
    topic, group = ask.name("PopT"), ask.name("PopG")
    if not ask.is_5:
        ask("broker", ACK, consumerGroup=group, topic=topic, queueId=0, extraInfo="", offset=0)
        return
    make_topic(ask, topic)
    send(ask, topic, "a", "b", "c")
    popped = pop(ask, topic, group)
    first = handle(popped, 0)
    ack(ask, topic, group, 0, first)
    ack(ask, topic, group, 0, first)
    for changes in (
        {"offset": 9}, {"offset": -1}, {"queueId": 9}, {"queueId": -1}, {"topic": ask.name("PopNone")},
        {"consumerGroup": ask.name("PopNone")}, {"extraInfo": "x"}, {"extraInfo": ""}, {"extraInfo": "a b c d e f g h"},
        {"extraInfo": None}, {"offset": None}, {"queueId": None}, {"consumerGroup": None}, {"topic": None},
        {"queueId": 9, "offset": 9}, {"offset": 9, "extraInfo": "x"},
    ):  # fmt: skip
        ack(ask, topic, group, 1, first, **changes)
    pop(ask, topic, group)
    stored_offset(ask, topic, group)


def script_batch_acks(ask: Asker) -> None:
    topic, group = ask.name("PopT"), ask.name("PopG")
    if not ask.is_5:
        ask("broker", BATCH_ACK, {"brokerName": _BROKER_NAME, "acks": []})
        return
    make_topic(ask, topic)
    send(ask, topic, "a", "b", "c")
    fields = pop(ask, topic, group).ext_fields
    item = {
        "c": group, "t": topic, "r": "0", "so": 0, "q": 0, "rq": int(fields["reviveQid"]),
        "pt": int(fields["popTime"]), "it": int(fields["invisibleTime"]), "b": base64.b64encode(b"\x03").decode(),
    }  # fmt: skip
    for acks in (
        [item], [item, item], [], [{**item, "t": ask.name("PopNone")}], [{**item, "c": ask.name("PopNone")}],
        [{**item, "q": 9}], [{**item, "r": "1"}], [{**item, "r": "2"}], [{**item, "so": 77}],
        [{**item, "b": base64.b64encode(b"\xff\xff").decode()}], [{key: item[key] for key in item if key != "b"}],
    ):  # fmt: skip
        ask("broker", BATCH_ACK, {"brokerName": _BROKER_NAME, "acks": acks})
    ask("broker", BATCH_ACK, {"brokerName": "broker-z", "acks": [item]})
    ask("broker", BATCH_ACK, {"brokerName": _BROKER_NAME})
    ask("broker", BATCH_ACK)
    ask("broker", BATCH_ACK, b"x")


def script_changes_of_invisible_time(ask: Asker) -> None:
    topic, group = ask.name("PopT"), ask.name("PopG")
    if not ask.is_5:
        ask("broker", CHANGE, consumerGroup=group, topic=topic, queueId=0, extraInfo="", offset=0, invisibleTime=1)
        return
    make_topic(ask, topic)
    send(ask, topic, "a", "b", "c")
    popped = pop(ask, topic, group)
    first = handle(popped, 0)
    changed = change(ask, topic, group, 0, first)
    assert changed is not None
    ack(ask, topic, group, 0, handle(changed, 0))
    change(ask, topic, group, 0, first)
    for changes in (
        {"offset": 9}, {"offset": -1}, {"queueId": 9}, {"queueId": -1}, {"topic": ask.name("PopNone")},
        {"consumerGroup": ask.name("PopNone")}, {"extraInfo": "x"}, {"extraInfo": "a b c d e f g h"},
        {"extraInfo": None}, {"offset": None}, {"queueId": None}, {"topic": None}, {"invisibleTime": None},
    ):  # fmt: skip
        change(ask, topic, group, 1, first, **changes)


def script_orderly_pops(ask: Asker) -> None:
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic)
    send(ask, topic, "a", "b", "c")
    common = {"order": True, "invisibleTime": 2000}
    popped = pop(ask, topic, group, maxMsgNums=2, attemptId="1", **common)
    stored_offset(ask, topic, group, settle_s=0)
    pop(ask, topic, group, attemptId="2", **common)
    pop(ask, topic, group, **common)
    popped = pop(ask, topic, group, attemptId="1", maxMsgNums=2, **common)
    ack(ask, topic, group, 1, handle(popped, 1))
    stored_offset(ask, topic, group, settle_s=0)
    ack(ask, topic, group, 2, handle(popped, 2))
    ack(ask, topic, group, 1, f"0 {int(popped.ext_fields['popTime']) - 5} 2000 999 0 {_BROKER_NAME} 0 1")
    ack(ask, topic, group, 0, handle(popped, 0))
    stored_offset(ask, topic, group, settle_s=0)
    ack(ask, topic, group, 0, handle(popped, 0))
    change(ask, topic, group, 0, handle(popped, 0))
    popped = pop(ask, topic, group, **common)
    time.sleep(2.2)
    popped = pop(ask, topic, group, **common)
    popped = pop(ask, topic, group, **common)
    time.sleep(2.2)
    popped = pop(ask, topic, group, attemptId="3", **common)
    fields = popped.ext_fields
    item = {
        "c": group, "t": topic, "r": "0", "so": 2, "q": 0, "rq": 999, "pt": int(fields["popTime"]), "it": 2000,
        "b": base64.b64encode(b"\x07").decode(),
    }  # fmt: skip
    ask("broker", BATCH_ACK, {"brokerName": _BROKER_NAME, "acks": [item]})
    stored_offset(ask, topic, group, settle_s=0)
    pop(ask, topic, group, **common)
    other = ask.name("PopOtherG")
    pop(ask, topic, other, maxMsgNums=0, **common)
    pop(ask, topic, other, exp="TagZ", **common)
    stored_offset(ask, topic, other, settle_s=0)


script_orderly_pops.waits = True  # type: ignore[attr-defined]


def script_orderly_pop_waits_for_its_queue(ask: Asker) -> None:
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic)
    send(ask, topic, "a", "b")
    pop(ask, topic, group, order=True, invisibleTime=1000)
    pop(ask, topic, group, order=True, pollTime=5000)
    other = ask.name("PopOtherG")
    popped = pop(ask, topic, other, order=True)
    start(ask, "two", topic, other, order=True, pollTime=5000)
    ack(ask, topic, other, 0, handle(popped, 0))
    send(ask, topic, "c")
    ack(ask, topic, other, 1, handle(popped, 1))
    finish(ask, "two")


script_orderly_pop_waits_for_its_queue.waits = True  # type: ignore[attr-defined]


def script_what_was_not_acked_comes_back(ask: Asker) -> None:
    """Messages are in the group's retry topic after their time; an ack and a longer time keep theirs from it."""
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic)
    send(ask, topic, "back", "acked", "later", tags="TagA")
    popped = pop(ask, topic, group, invisibleTime=1000)
    ack(ask, topic, group, 1, handle(popped, 1))
    later = change(ask, topic, group, 2, handle(popped, 2), invisibleTime=300_000)
    await_revived(ask, topic, group, 1)
    pop(ask, topic, group, queueId=-1, invisibleTime=1000)
    await_revived(ask, topic, group, 2)
    again = pop(ask, topic, group, queueId=-1)
    pop(ask, topic, group, queueId=-1)
    assert later is not None
    ack(ask, topic, group, 2, handle(later, 2))
    ack(ask, f"%RETRY%{group}_{topic}", group, 1, handle(again, 1, start_offset=1, flag=1))
    ask("broker", RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic=topic)


script_what_was_not_acked_comes_back.waits = True  # type: ignore[attr-defined]


def await_revived(ask: Asker, topic: str, group: str, count: int) -> None:
    """Wait until so many came back; a real broker takes many seconds for it."""
    request = Command(MAX_OFFSET, {"topic": f"%RETRY%{group}_{topic}", "queueId": "0"})
    give_up_s = time.monotonic() + 60
    while time.monotonic() < give_up_s:
        seen = ask.connection("broker", "watcher").ask(request, 5.0)
        if seen is not None and seen.code == 0 and int(seen.ext_fields["offset"]) >= count:
            time.sleep(_SETTLE_S)
            return
        time.sleep(0.1)
    raise AssertionError(f"{count} did not come back")


def start(ask: Asker, client: str, topic: str, group: str, *, code: int = POP, **changes: Any) -> None:
    """Send a pop that is to wait, and give it time to begin."""
    fields = {name: str(value).lower() for name, value in pop_fields(topic, group, **changes).items()}
    fields["consumerGroup"], fields["topic"] = group, topic
    connection = ask.connection("broker", client)
    connection.socket.sendall(connection.protocol.send_request(Command(code, fields, language="JAVA", version=493))[1])
    time.sleep(0.2)


def finish(ask: Asker, client: str, code: int = POP) -> None:
    """Take the answer of what start() sent."""
    connection = ask.connection("broker", client)
    while (event := connection.protocol.next_event()) is None:
        connection.protocol.receive_data(connection.socket.recv(1 << 16))
    ask.exchanges.append(Exchange("broker", code, {}, event.command))


def script_pops_that_wait(ask: Asker) -> None:
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic)
    pop(ask, topic, group, pollTime=300)
    start(ask, "two", topic, group, pollTime=5000)
    ask("broker", POLLING_INFO, consumerGroup=group, topic=topic, queueId=0)
    ask("broker", POLLING_INFO, consumerGroup=group, topic=topic, queueId=-1)
    start(ask, "three", topic, group, pollTime=5000, code=NOTIFICATION, queueId=-1)
    ask("broker", POLLING_INFO, consumerGroup=group, topic=topic, queueId=-1)
    send(ask, topic, "a")
    finish(ask, "two")
    start(ask, "two", topic, group, pollTime=5000, queueId=-1)
    ask("broker", POLLING_INFO, consumerGroup=group, topic=topic, queueId=-1)
    send(ask, topic, "b")
    finish(ask, "two")
    ask("broker", POLLING_INFO, consumerGroup=group, topic=topic, queueId=-1)


script_pops_that_wait.waits = True  # type: ignore[attr-defined]


def script_peeks(ask: Asker) -> None:
    topic, group, closed, disabled = (ask.name(text) for text in ("PopT", "PopG", "PopClosed", "PopDisabled"))
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 32}
    ask("broker", PEEK, **fields)
    if not ask.is_5:
        return
    make_topic(ask, topic)
    make_topic(ask, closed, perm=2)
    make_group(ask, disabled, consumeEnable=False)
    ask("broker", PEEK, **fields)
    send(ask, topic, "a", "b", "c")
    for changes in (
        {}, {"queueId": -1}, {"maxMsgNums": 2}, {"maxMsgNums": 33}, {"maxMsgNums": 0}, {"queueId": 9},
        {"topic": closed}, {"consumerGroup": disabled},
    ):  # fmt: skip
        ask("broker", PEEK, **{**fields, **changes})
    for name in fields:
        ask("broker", PEEK, **{key: value for key, value in fields.items() if key != name})
    pop(ask, topic, group, maxMsgNums=2)
    time.sleep(_SETTLE_S)
    ask("broker", PEEK, **fields)


def script_notifications(ask: Asker) -> None:
    topic, group, closed, disabled = (ask.name(text) for text in ("PopT", "PopG", "PopClosed", "PopDisabled"))
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0, "pollTime": 0, "bornTime": now_ms()}
    for code in (NOTIFICATION, POLLING_INFO):
        ask("broker", code, **fields)
    if not ask.is_5:
        return
    make_topic(ask, topic)
    make_topic(ask, closed, perm=2)
    make_group(ask, disabled, consumeEnable=False)
    ask("broker", NOTIFICATION, **fields)
    send(ask, topic, "a")
    for code in (NOTIFICATION, POLLING_INFO):
        for changes in ({}, {"queueId": -1}, {"queueId": 9}, {"topic": closed}, {"consumerGroup": disabled}):
            ask("broker", code, **{**fields, **changes})
        for name in ("consumerGroup", "topic", "queueId"):
            ask("broker", code, **{key: value for key, value in fields.items() if key != name})
    ask("broker", NOTIFICATION, **{**fields, "bornTime": now_ms() - 60_000, "pollTime": 15_000})
    pop(ask, topic, group, order=True, attemptId="1")
    for more in ({"order": True}, {"order": True, "attemptId": "1"}, {}):
        ask("broker", NOTIFICATION, **fields, **more)
    pop(ask, topic, group)
    time.sleep(_SETTLE_S)
    ask("broker", NOTIFICATION, **fields)
    ask("broker", NOTIFICATION, **{**fields, "pollTime": 300, "bornTime": now_ms()})


def heartbeat(ask: Asker, client_id: str, group: str, topic: str) -> None:
    subscription = {
        "topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": [], "codeSet": [],
        "classFilterMode": False,
    }  # fmt: skip
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": False,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription],
    }  # fmt: skip
    ask("broker", 34, {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}, client=client_id)


def script_assignments(ask: Asker) -> None:
    topic, group = ask.name("PopT"), ask.name("PopG")
    body = {
        "clientId": "c1", "consumerGroup": group, "messageModel": "CLUSTERING", "strategyName": "AVG", "topic": topic
    }  # fmt: skip
    ask("broker", ASSIGNMENT, body)
    if not ask.is_5:
        return
    make_topic(ask, topic, 4)
    ask("broker", ASSIGNMENT, body)
    for client_id in ("c1", "c2", "c3"):
        heartbeat(ask, client_id, group, topic)
    # The broker asks the name server for a route that it does not know, and keeps what it heard for a while.
    time.sleep(6)
    for mode, share_count in (("PULL", 0), ("POP", 0), ("POP", 1), ("POP", 2), ("POP", -1), ("X", 0), ("PULL", 1)):
        ask("broker", SET_MODE, {"consumerGroup": group, "topic": topic, "mode": mode, "popShareQueueNum": share_count})
        ask("broker", MODES)
        for changes in (
            {}, {"clientId": "c2"}, {"clientId": "c3"}, {"clientId": "c9"}, {"strategyName": "AVG_BY_CIRCLE"},
            {"strategyName": "AVG_BY_CIRCLE", "clientId": "c2"}, {"strategyName": "X"},
            {"messageModel": "BROADCASTING"}, {"topic": f"%RETRY%{group}"},
        ):  # fmt: skip
            ask("broker", ASSIGNMENT, {**body, **changes})
    for changes in ({"topic": ask.name("PopNone")}, {"consumerGroup": ask.name("PopNone")}, {"messageModel": "X"}):
        ask("broker", ASSIGNMENT, {**body, **changes})
    for name in body:
        ask("broker", ASSIGNMENT, {key: value for key, value in body.items() if key != name})
    for data in (b"", b"x", {}):
        ask("broker", ASSIGNMENT, data)


script_assignments.waits = True  # type: ignore[attr-defined]


def script_assignments_of_many_clients(ask: Asker) -> None:
    if not ask.is_5:
        return
    topic, group = ask.name("PopT"), ask.name("PopG")
    make_topic(ask, topic, 2)
    for number in range(5):
        heartbeat(ask, f"c{number}", group, topic)
    time.sleep(6)
    for share_count in (1, 3):
        ask(
            "broker", SET_MODE, {"consumerGroup": group, "topic": topic, "mode": "POP", "popShareQueueNum": share_count}
        )
        for number in range(6):
            ask("broker", ASSIGNMENT, {
                "clientId": f"c{number}", "consumerGroup": group, "messageModel": "CLUSTERING", "strategyName": "AVG",
                "topic": topic,
            })  # fmt: skip


script_assignments_of_many_clients.waits = True  # type: ignore[attr-defined]


def script_request_modes(ask: Asker) -> None:
    topic, group = ask.name("PopT"), ask.name("PopG")
    body = {"consumerGroup": group, "topic": topic, "mode": "POP", "popShareQueueNum": 1}
    ask("broker", MODES)
    ask("broker", SET_MODE, body)
    if not ask.is_5:
        return
    make_topic(ask, topic)
    for changes in ({}, {"topic": f"%RETRY%{group}"}, {"mode": "X"}, {"popShareQueueNum": "x"}, {"topic": ""}):
        ask("broker", SET_MODE, {**body, **changes})
        ask("broker", MODES)
    for name in body:
        ask("broker", SET_MODE, {key: value for key, value in body.items() if key != name})
        ask("broker", MODES)
    for data in (b"", b"x", {}):
        ask("broker", SET_MODE, data)

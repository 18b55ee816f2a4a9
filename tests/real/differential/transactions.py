"""Half messages, how they end, and how a broker asks about those that do not; replies to producers that wait."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from rmqctl.protocol.command import Command
from rmqctl.protocol.message import iter_messages
from tests.real.differential.answering import HEART_BEAT, Member
from tests.real.differential.asker import Asker
from tests.real.differential.pulling import await_stored
from tests.real.differential.sending import V1, log_offset, props, pull, send

END, CHECK, CONFIG, RESUME, VIEW, QUERY = 37, 39, 25, 323, 33, 12
REPLY, REPLY_V2, PUSH_REPLY = 324, 325, 326
COMMIT, ROLL_BACK, UNKNOWN = 8, 12, 0
GROUP = "TranProducers"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


def prepare(ask: Asker, topic: str, key: str, *, group: str = GROUP, **more: object) -> dict[str, object]:
    """Send a half message; return the fields that end it."""
    properties = props(UNIQ_KEY=key, TRAN_MSG="true", PGROUP=ask.name(group), TAGS="t", WAIT="true", **more)
    born_ms = int(time.time() * 1000)
    answer = ask.connection("broker", "quiet").ask(Command(310, {
        "a": ask.name(group), "b": topic, "c": "TBW102", "d": "4", "e": "1", "f": "4", "g": str(born_ms), "h": "5",
        "i": properties, "j": "2", "k": "false", "m": "false",
    }, f"half {key}".encode()))  # fmt: skip
    assert answer is not None
    assert answer.code == 0, answer
    return {
        "producerGroup": ask.name(group), "tranStateTableOffset": answer.ext_fields["queueOffset"],
        "commitLogOffset": log_offset(answer), "msgId": key, "transactionId": key,
    }  # fmt: skip


def register(ask: Asker, client: str, group: str) -> None:
    """Send the heartbeat of a producer."""
    body = json.dumps({"clientID": client, "consumerDataSet": [], "producerDataSet": [{"groupName": group}]}).encode()
    ask.connection("broker", client).ask(Command(HEART_BEAT, {}, body, language="JAVA", version=ask._version))


def wait_until(is_so: Callable[[], bool], timeout_s: float = 200) -> None:
    """Wait for something; the first checks come a minute after a broker's start."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.2)


def query(ask: Asker, topic: str, key: str) -> bytes:
    """Return the messages with a key, without comparing the answer."""
    fields = {"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**60)}
    answer = ask.connection("broker", "quiet").ask(Command(QUERY, fields))
    return answer.body if answer is not None and answer.code == 0 else b""


def script_ends(ask: Asker) -> None:
    """Commit and roll back, at the first attempt and after a check; all that is refused."""
    topic = ask.name("X-t")
    send(ask, topic)
    committed = prepare(ask, topic, "X1")
    ask("broker", VIEW, offset=committed["commitLogOffset"])
    ask("broker", END, commitOrRollback=COMMIT, fromTransactionCheck=False, **committed)
    ask("broker", END, commitOrRollback=ROLL_BACK, fromTransactionCheck=True, **prepare(ask, topic, "X2"))
    ask("broker", END, commitOrRollback=COMMIT, **prepare(ask, topic, "X3"))
    ask("broker", END, commitOrRollback=UNKNOWN, timeout_s=1, **prepare(ask, topic, "X4"))
    ask("broker", END, commitOrRollback=7, **committed)
    for changes in (
        {"producerGroup": "other"}, {"tranStateTableOffset": 10**9}, {"commitLogOffset": 10**14},
        {"commitLogOffset": -1}, {"commitOrRollback": ROLL_BACK, "producerGroup": "other"},
    ):  # fmt: skip
        ask("broker", END, **{"commitOrRollback": COMMIT, **committed, **changes})
    for name in ("producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback"):
        fields = {"commitOrRollback": COMMIT, **committed}
        del fields[name]
        ask("broker", END, **fields)
    plain = send(ask, topic, i=props(UNIQ_KEY="X5"))
    ask("broker", END, **{**committed, "commitOrRollback": COMMIT, "commitLogOffset": log_offset(plain)})
    await_stored(ask, topic, 1, 2)
    pull(ask, topic, 1)


def script_half_sends(ask: Asker) -> None:
    """What is a half message, and what is not."""
    topic = ask.name("X-h")
    send(ask, topic, j=1, i=props(UNIQ_KEY="XH1", TRAN_MSG="true", PGROUP="P", DELAY=1))
    send(ask, topic, i=props(UNIQ_KEY="XH2", TRAN_MSG="false", PGROUP="P"))
    send(ask, "S a", i=props(UNIQ_KEY="XH3", TRAN_MSG="true", PGROUP="P"))
    send(ask, topic, e=99, i=props(UNIQ_KEY="XH3", TRAN_MSG="true", PGROUP="P"))
    ask("broker", CONFIG, b"rejectTransactionMessage=true\n")
    send(ask, topic, i=props(UNIQ_KEY="XH4", TRAN_MSG="true", PGROUP="P"))
    ask("broker", V1, b"one", producerGroup="P", topic=topic, defaultTopic="TBW102", defaultTopicQueueNums=4,
        queueId=0, sysFlag=4, bornTimestamp=1, flag=5, reconsumeTimes=0, unitMode=False, batch=False,
        properties=props(UNIQ_KEY="XH5", TRAN_MSG="TRUE", PGROUP="P"))  # fmt: skip
    ask("broker", CONFIG, b"rejectTransactionMessage=false\n")
    await_stored(ask, topic, 0, 2 if ask.is_5 else 1)  # 4.9 takes the first for a half message, and loses it
    pull(ask, topic)


def script_ends_late(ask: Asker) -> None:
    """Half messages with an own time until the first check: 5.x refuses a producer that ends them later."""
    topic = ask.name("X-d")
    send(ask, topic)
    fields = prepare(ask, topic, "XD1", CHECK_IMMUNITY_TIME_IN_SECONDS=0)
    time.sleep(0.1)
    ask("broker", END, commitOrRollback=COMMIT, **fields)
    ask("broker", END, commitOrRollback=COMMIT, fromTransactionCheck=True, **fields)
    for text in ("x", "-1", "1000"):
        fields = prepare(ask, topic, f"XD-{text}", CHECK_IMMUNITY_TIME_IN_SECONDS=text)
        ask("broker", END, commitOrRollback=COMMIT, **fields)
    await_stored(ask, topic, 1, 4)
    pull(ask, topic, 1)


def script_checks(ask: Asker) -> None:
    """What a broker asks a producer about an open half message, until it gives it up."""
    topic = ask.name("X-c")
    send(ask, topic)
    register(ask, "member", ask.name(GROUP))
    ask("broker", CONFIG, b"transactionTimeOut=500\ntransactionCheckMax=2\ntransactionCheckInterval=1000\n")
    prepare(ask, topic, ask.name("XC0"), group="nobody")
    wait_until(lambda: query(ask, "TRANS_CHECK_MAX_TIME_TOPIC", ask.name("XC0")) != b"")
    ask.restart_clock()  # from now on, both check every second
    with Member(ask, "member", {CHECK: None}) as member:
        prepare(ask, topic, "XC1", KEYS="a b")
        wait_until(lambda: len(member.seen) == 2)
        # Committed after the last check, by the place of the copy that was checked.
        asked = member.seen[-1]
        (half,) = iter_messages(asked.body)
        ask("broker", END, commitOrRollback=COMMIT, fromTransactionCheck=True, producerGroup=ask.name(GROUP),
            tranStateTableOffset=asked.ext_fields["tranStateTableOffset"],
            commitLogOffset=asked.ext_fields["commitLogOffset"], msgId="XC1", transactionId="XC1")  # fmt: skip
    assert half.topic == topic
    await_stored(ask, topic, 1, 1)
    pull(ask, topic, 1)
    prepare(ask, topic, ask.name("XC2"), group="nobody")
    wait_until(lambda: query(ask, "TRANS_CHECK_MAX_TIME_TOPIC", ask.name("XC2")) != b"")
    (message,) = iter_messages(query(ask, "TRANS_CHECK_MAX_TIME_TOPIC", ask.name("XC2")))
    ask("broker", VIEW, offset=message.commit_log_offset)
    ask("broker", CONFIG, b"transactionTimeOut=6000\ntransactionCheckMax=15\n")
    ask("broker", RESUME, msgId=message.offset_id)


script_checks.waits = True  # type: ignore[attr-defined]


def script_resume(ask: Asker) -> None:
    """Ids that can't be checked again."""
    for text in ("", "garbage", "7F00000100002A9F00000FFFFFFFFFFF"):
        ask("broker", RESUME, msgId=text)
    ask("broker", RESUME)


def script_replies(ask: Asker) -> None:
    """Replies to a producer that waits, answers, refuses, or is gone."""
    register(ask, "member", ask.name(GROUP))

    def reply(code: int = REPLY_V2, **changes: object) -> None:
        text = props(REPLY_TO_CLIENT="member", CORRELATION_ID="c", MSG_TYPE="reply", UNIQ_KEY="R", TTL="3000")
        send(ask, REPLY_TOPIC, b"reply", code=code, **{"c": None, "d": None, "i": text, **changes})

    with Member(ask, "member", {PUSH_REPLY: Command(0)}):
        reply()
        reply(h=7, f=1, j=2, k=True, e=-1)
        ask("broker", REPLY, b"long", producerGroup="P", topic=REPLY_TOPIC, defaultTopic="TBW102",
            defaultTopicQueueNums=4, queueId=0, sysFlag=0, bornTimestamp=1, flag=5, reconsumeTimes=0, unitMode=False,
            batch=False, properties=props(UNIQ_KEY="R", REPLY_TO_CLIENT="member"))  # fmt: skip
    with Member(ask, "member", {PUSH_REPLY: Command(1, remark="no")}):
        reply()
    reply(i=props(UNIQ_KEY="R"))
    reply(i=None)
    reply(i=props(UNIQ_KEY="R", REPLY_TO_CLIENT="nobody"))
    reply(e=9)
    reply(b="S a")
    ask("broker", CONFIG, b"storeReplyMessageEnable=false\n")
    reply(i=props(UNIQ_KEY="R", REPLY_TO_CLIENT="nobody"))
    with Member(ask, "member", {PUSH_REPLY: Command(0)}):
        reply()
    ask("broker", CONFIG, b"storeReplyMessageEnable=true\n")
    pull(ask, REPLY_TOPIC)

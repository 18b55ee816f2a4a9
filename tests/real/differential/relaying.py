"""Scripts of requests that a broker hands on to a member and whose answers come from there."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from tests.real.differential.answering import Member
from tests.real.differential.asker import Asker
from tests.real.differential.stats import await_stored, send

RUNNING_INFO, CONSUME_DIRECTLY = 307, 309
INFO = b'{"properties":{"PROP_CLIENT_VERSION":"V5_4_0"},"mqTable":{}}'
RESULT = b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":1}'


def script_running_info(ask: Asker) -> None:
    topic, group = ask.name("RInfoTopic"), ask.name("RInfoGroup")
    ask("broker", RUNNING_INFO, consumerGroup=group, clientId="member")
    answer = Command(0, {"x": "1"}, INFO, remark="not set any response code")
    member = Member(ask, "member", {RUNNING_INFO: answer}).join(group, topic)
    with member:
        ask("broker", RUNNING_INFO, consumerGroup=group, clientId="member", jstackEnable=True, more="kept")
        ask("broker", RUNNING_INFO, b"a body", consumerGroup=group, clientId="member")
    ask("broker", RUNNING_INFO, consumerGroup=group, clientId="nobody")
    ask("broker", RUNNING_INFO, consumerGroup="nobody", clientId="member")
    ask("broker", RUNNING_INFO, consumerGroup=group)
    with Member(ask, "member", {RUNNING_INFO: Command(1, {}, b"", remark="The Consumer Group is not there")}):
        ask("broker", RUNNING_INFO, consumerGroup=group, clientId="member")
    member.leave()
    member.join(group, topic, version=61)
    ask("broker", RUNNING_INFO, consumerGroup=group, clientId="member")
    member.leave()


def script_running_info_unanswered(ask: Asker) -> None:
    topic, group = ask.name("RSilentTopic"), ask.name("RSilentGroup")
    member = Member(ask, "member", {}).join(group, topic)
    ask("broker", RUNNING_INFO, consumerGroup=group, clientId="member")
    member.leave()


script_running_info_unanswered.waits = True  # type: ignore[attr-defined]


def script_consume_directly(ask: Asker) -> None:
    topic, group = ask.name("RDirectTopic"), ask.name("RDirectGroup")
    answer = send(ask, topic, 0)
    await_stored(ask, topic, 0, 1)
    assert answer is not None
    offset_id = answer.ext_fields["msgId"]
    ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=offset_id)
    member = Member(ask, "member", {CONSUME_DIRECTLY: Command(0, {}, RESULT)}).join(group, topic)
    with member:
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=offset_id)
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=offset_id, topic=topic)
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=offset_id, topic="none",
            brokerName="other", topicSysFlag=5)  # fmt: skip
        far = offset_id[:16] + "00000FFFFFFFFFFF"
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=far)
        inside = offset_id[:16] + f"{int(offset_id[16:], 16) + 1:016X}"
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=inside)
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId="garbage")
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId="ABCD")
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId="")
        ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member")
        ask("broker", CONSUME_DIRECTLY, msgId=offset_id)
    ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="nobody", msgId=offset_id)
    ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="nobody", msgId="garbage")
    member.leave()
    member.join(group, topic, version=61)
    ask("broker", CONSUME_DIRECTLY, consumerGroup=group, clientId="member", msgId=offset_id)
    member.leave()

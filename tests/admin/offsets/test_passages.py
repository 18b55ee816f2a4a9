from __future__ import annotations

import pytest

from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.admin.offsets.passages import MessagePassages, PassageReport, fetch_passages
from rmqctl.model.group import Proxies
from rmqctl.model.names import PROXY_GROUP
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.message_wait import Wait
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, subscribed
from tests.admin.message_store import MessageStore
from tests.scripted_peer import V4_9_7, V5_4_0, passing, refused, run

# Each of them gave its group an offset of 3 in T: the message at 2 is passed.
_OFFSETS = {"T": {0: 3}}


def _state(version: int = V5_4_0) -> BrokerState:
    state = BrokerState("broker-a", version, topics={"T": [Queue(5)]})
    state.offsets = {name: dict(_OFFSETS) for name in ("passed", "filtered", "casting", "popping", "retrying", "mode")}
    state.offsets |= {"behind": {"T": {0: 2}}, "elsewhere": {"T": {1: 9}}, "ahead": {"T": {0: 6}}}
    state.groups = {
        "passed": Group({}),
        "filtered": Group({}, subscriptions={"T": subscribed("T", "TagB")}),
        "casting": Group({}, message_model="BROADCASTING"),
        "popping": Group({}, consume_type="CONSUME_POP"),
        "new": Group({}),
        "other": Group({}, ("U",)),
    }
    state.topics["%RETRY%retrying+T"] = [Queue(3)]
    state.pop_shares = {"T": {"mode": 0}} if version == V5_4_0 else {}
    return state


def _message(topic: str = "T", **properties: str) -> FoundMessage:
    record = MessageStore(BrokerState("broker-a")).put(topic, 0, tag="TagA", more=properties).record
    return FoundMessage(MessageQueue(topic, "broker-a", 0), 2, StoredMessage.decode(record))


def _fetch(cluster: Cluster, *found: FoundMessage) -> PassageReport:
    async def fetch() -> PassageReport:
        async with cluster.client() as client:
            return await fetch_passages(client, found)

    return run(passing(cluster.clock, fetch()))


def _verdicts(passages: MessagePassages) -> dict[str, str]:
    return {each.group: str(each.verdict or each.reasons["verdict"]) for each in passages.groups or ()}


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_each_group_of_the_topic_has_a_verdict_or_the_reason_for_none(version: int) -> None:
    # broker-b has no part in it: it is not asked.
    cluster = Cluster(_state(version), BrokerState("broker-b"))
    cluster.stop("broker-b")
    report = _fetch(cluster, _message())
    modes = {"mode": "POP" if version == V5_4_0 else "PASSED"}
    assert _verdicts(report.messages[0]) == modes | {
        "ahead": "OFFSET_BEYOND_MAX", "behind": "NOT_YET", "casting": "BROADCASTING", "elsewhere": "NEVER_COMMITTED",
        "filtered": "FILTERED", "new": "NEVER_COMMITTED", "passed": "PASSED", "popping": "POP", "retrying": "POP",
    }  # fmt: skip
    assert (report.failures, report.proxies) == ((), Proxies.ABSENT)
    by_name = {each.group: each for each in report.messages[0].groups or ()}
    assert (by_name["passed"].consumer_offset, by_name["passed"].reasons) == (3, {})
    assert by_name["behind"].reasons == {"subString": "NO_MEMBERS"}


def test_messages_that_no_group_can_have_and_those_of_pop_retry_topics() -> None:
    state = _state()
    retry = "%RETRY%retrying+T"
    state.offsets["retrying"][retry] = {0: 3}
    waiting = FoundMessage(MessageQueue("T", "broker-a", 0), 2, None, wait=Wait("T", 0, 3, None))
    half, delayed = _message("RMQ_SYS_TRANS_HALF_TOPIC"), _message("SCHEDULE_TOPIC_XXXX")
    found = (waiting, half, delayed, _message(__LITE_TOPIC="l"), _message(retry), _message("%DLQ%passed"))
    state.topics["%DLQ%passed"] = [Queue(3)]
    report = _fetch(Cluster(state), *found)
    assert [each.reason for each in report.messages] == ["WAITS", "HALF_MESSAGE", "WAITS", "LITE_TOPIC", None, None]
    assert [_verdicts(each) for each in report.messages[4:]] == [{"retrying": "POP"}, {}]


def test_what_could_not_be_read_has_no_verdict() -> None:
    cluster = Cluster(_state())
    one_offset = cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET]

    def refuse_one(request: object) -> object:
        is_one = request.ext_fields["consumerGroup"] == "passed"  # type: ignore[attr-defined]
        return refused(R.NO_PERMISSION, "no") if is_one else one_offset(request)  # type: ignore[operator]

    cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = refuse_one  # type: ignore[assignment]
    report = _fetch(cluster, _message())
    assert _verdicts(report.messages[0])["passed"] == "NOT_AUTHORISED"
    assert _verdicts(report.messages[0])["behind"] == "NOT_YET"
    assert [failure.what for failure in report.failures] == ["offsets of group passed"]
    cluster.stop("broker-a")
    report = _fetch(cluster, _message())
    assert report.messages[0] == MessagePassages(None, "UNREACHABLE")
    assert [(failure.broker_name, failure.what) for failure in report.failures] == [("broker-a", "groups of T")]


def test_an_offset_that_only_a_silent_master_may_have_is_unknown() -> None:
    cluster = Cluster(_state())
    cluster.slaves.add("broker-a")
    verdicts = _verdicts(_fetch(cluster, _message()).messages[0])
    assert (verdicts["new"], verdicts["passed"]) == ("SLAVE_ANSWERED", "PASSED")


def test_proxies_may_hide_members_of_groups_without_any() -> None:
    state = _state()
    state.groups[PROXY_GROUP] = Group({"proxy": refused(R.SYSTEM_ERROR)}, ())
    assert _fetch(Cluster(state), _message()).proxies is Proxies.PRESENT

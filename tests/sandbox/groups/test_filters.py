"""What subscriptions let through."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.message import iter_messages
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.groups.filters import ExpressionTable, build_filter
from rmqctl.sandbox.groups.subscription import SubscriptionData, parse_subscription
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import send

PULL, CHECK = RequestCode.PULL_MESSAGE, RequestCode.CHECK_CLIENT_CONFIG
TAG_CODES = {"TagA": 2598919, "TagB": 2598920, "Aa": 2112, "BB": 2112, "": 0}


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("*", set(TAG_CODES)), ("", set(TAG_CODES)), (None, set(TAG_CODES)), ("TagA", {"TagA"}), (" * ", set()),
     ("TagA||TagB", {"TagA", "TagB"}), (" TagA ||  || TagB", {"TagA", "TagB"}), ("BB", {"Aa", "BB"}), (" ", set()),
     ("|| ||", set())],
)  # fmt: skip
def test_tags_pass_by_their_hashes(expression: str | None, tags: set[str]) -> None:
    accepts = build_filter(parse_subscription("T", expression, "TAG")).accepts_code

    assert {tag for tag, code in TAG_CODES.items() if accepts is None or accepts(code)} == tags


@pytest.mark.parametrize(("expression", "kind"), [("||", "TAG"), ("||||", None), ("", "SQL92"), (None, "SQL92")])
def test_what_is_no_subscription(expression: str | None, kind: str | None) -> None:
    with pytest.raises(ValueError, match="expression"):
        parse_subscription("T", expression, kind)


def test_the_kind_without_a_name_filters_by_tags_that_it_does_not_read() -> None:
    accepts = build_filter(parse_subscription("T", "TagA", "")).accepts_code

    assert accepts is not None
    assert not accepts(TAG_CODES["TagA"])


def _sql(expression: str, version_ms: int, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic, expression, version_ms=version_ms, expression_type="SQL92")


def _table(now_s: list[float]) -> ExpressionTable:
    return ExpressionTable(lambda: now_s[0], has_text_operators=True)


def _version(table: ExpressionTable, topic: str = "T") -> int | None:
    found = table.find(topic, "G")
    return None if found is None else found[1]


def test_a_groups_expression_is_the_newest_and_a_wrong_one_takes_it_away() -> None:
    table = _table([0.0])
    for expression, version_ms, expected in (
        ("a > 1", 10, 10), ("a > 2", 10, 10), ("a > 3", 9, 10), ("a > 1", 11, 11), ("a >", 12, None), ("a >", 13, None),
        ("a = 5", 1, 1),
    ):  # fmt: skip
        table.register("G", [_sql(expression, version_ms)])
        assert _version(table) == expected
    found = table.find("T", "G")
    assert found is not None
    assert found[0].matches({"a": "5"})
    table.register("G", [_sql("a = 5", 2), SubscriptionData("Tags", "TagA"), _sql("", 9, "Empty")])
    assert (_version(table, "Tags"), _version(table, "Empty")) == (None, None)


def test_an_expression_outlives_members_by_24_hours() -> None:
    now_s = [0.0]
    table = _table(now_s)
    table.register("G", [_sql("a = 1", 10)])
    table.register("G", [_sql("a = 1", 10, "Else")])
    now_s[0] = 1000.0
    table.forget("G")
    now_s[0] = 24 * 3600 - 1
    assert (_version(table), _version(table, "Else")) == (10, 10)
    now_s[0] = 24 * 3600
    assert (_version(table), _version(table, "Else")) == (None, 10)
    # The same version again gives it a new life.
    table.register("G", [_sql("a = 1", 10, "Else")])
    now_s[0] = 72 * 3600
    assert _version(table, "Else") == 10


def test_an_expression_that_was_forgotten_does_not_stand_in_the_way_of_an_older_version() -> None:
    now_s = [0.0]
    table = _table(now_s)
    table.register("G", [_sql("a = 1", 10)])
    table.forget("G")
    now_s[0] = 24 * 3600
    table.register("G", [_sql("a = 2", 9)])
    assert _version(table) == 9


def test_expressions_that_nobody_asks_for_any_more_are_not_kept() -> None:
    """Clients may name any topics, also such that nobody will ever pull."""

    def peak_bytes(topic_count: int) -> int:
        now_s = [0.0]
        table = _table(now_s)
        tracemalloc.start()
        for number in range(topic_count):
            table.register("G", [_sql("a = 1", 1, f"T{number}")])
            now_s[0] += 24 * 3600
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak_bytes(500) < peak_bytes(20) + 20_000


def test_an_expression_that_would_keep_a_broker_busy_is_taken_for_wrong() -> None:
    with pytest.raises(ValueError, match="longer than 32768 characters"):
        build_filter(parse_subscription("T", "a = 1 OR " * 5_000 + "a = 2", "SQL92"))


def test_long_expressions_of_pulls_are_not_remembered() -> None:
    tracemalloc.start()
    for number in range(100):
        blanks = " " * 30_000
        build_filter(parse_subscription("T", f"{number}{blanks}", "TAG"))
        build_filter(parse_subscription("T", f"a = {number}{blanks}", "SQL92"))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1_000_000


async def _pull(peer: Peer, **changes: Any) -> tuple[int, list[int]]:
    answer = await peer.ask(
        PULL, consumerGroup="G", topic="T", queueId=0, queueOffset=0, maxMsgNums=32, commitOffset=0,
        suspendTimeoutMillis=0, **{"subVersion": 0, "sysFlag": 0, **changes},
    )  # fmt: skip
    return answer.code, [message.queue_offset for message in iter_messages(answer.body)]


async def _messages(sandbox: Sandbox) -> Peer:
    peer = await Peer.of_broker(sandbox)
    for tag in ("TagA", "TagB", ""):
        await send(peer, "T", tag=tag)
    return peer


async def test_a_heartbeats_hashes_rule_not_its_tags() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _messages(sandbox)
        matching, nothing = ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY
        for number, (item, expected) in enumerate((
            (subscription("T", "TagA", codeSet=[TAG_CODES["TagA"]]), (matching, [0])),
            (subscription("T", "TagA", codeSet=[]), (nothing, [])),
            (subscription("T", "*", codeSet=[1]), (matching, [0, 1, 2])),
            (subscription("T", "TagA", codeSet=[0]), (matching, [2])),
            (subscription("T", "TagA", codeSet=[1], classFilterMode=True), (matching, [0, 1, 2])),
        )):  # fmt: skip
            await peer.heartbeat("one", consumer_data("G", {**item, "subVersion": number}))
            assert await _pull(peer) == expected


async def test_a_member_with_an_older_version_is_served_by_the_newest_one() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _messages(sandbox)
        newer = subscription("T", "TagB", version_ms=9, codeSet=[TAG_CODES["TagB"]])
        await peer.heartbeat("one", consumer_data("G", newer))
        await peer.heartbeat("two", consumer_data("G", subscription("T", "TagA", codeSet=[TAG_CODES["TagA"]])))
        assert await _pull(peer, subVersion=1) == (ResponseCode.SUCCESS, [1])


async def test_expressions_of_heartbeats() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _messages(sandbox)

        async def beat(expression: str, version_ms: int) -> None:
            item = subscription("T", expression, version_ms=version_ms, expressionType="SQL92")
            await peer.heartbeat("one", consumer_data("G", item))

        await beat("TAGS = 'TagA'", 5)
        assert await _pull(peer, subVersion=5) == (ResponseCode.SUCCESS, [0])
        await beat("TAGS =", 6)
        assert (await _pull(peer))[0] == ResponseCode.FILTER_DATA_NOT_EXIST
        await beat("TAGS IS NULL", 7)
        assert await _pull(peer, subVersion=7) == (ResponseCode.SUCCESS, [2])
        # The expression outlives the group's members, who may come back with an older version of theirs.
        await peer.ask_ok(RequestCode.UNREGISTER_CLIENT, clientID="one", consumerGroup="G")
        await beat("TAGS = 'TagB'", 6)
        assert await _pull(peer, subVersion=6) == (ResponseCode.SUCCESS, [2])


async def test_filter_data_can_be_older_than_the_subscription() -> None:
    """The subscription took a version whose empty expression the table of expressions did not."""

    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _messages(sandbox)
        for expression, version_ms in (("TAGS = 'TagA'", 5), ("", 6)):
            item = subscription("T", expression, version_ms=version_ms, expressionType="SQL92")
            await peer.heartbeat("one", consumer_data("G", item))
        assert (await _pull(peer, subVersion=6))[0] == ResponseCode.FILTER_DATA_NOT_LATEST
        assert await _pull(peer, subVersion=5) == (ResponseCode.SUCCESS, [0])


async def test_expressions_of_pulls() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await _messages(sandbox)
        own = {"sysFlag": 4, "expressionType": "SQL92"}
        assert await _pull(peer, subscription="TAGS = 'TagB'", **own) == (ResponseCode.SUCCESS, [1])
        assert await _pull(peer, subscription="TAGS >", **own) == (ResponseCode.SUCCESS, [0, 1, 2])
        assert (await _pull(peer, subscription="", **own))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_broker_that_filters_by_tags_only() -> None:
    async with Sandbox(clock=VirtualClock(), settings={"enablePropertyFilter": "false"}) as sandbox:
        peer = await _messages(sandbox)
        item = subscription("T", "TAGS = 'TagA'", expressionType="SQL92")
        remark = "The broker does not support consumer to filter message by SQL92"
        answer = await peer.ask(CHECK, {"clientId": "one", "group": "G", "subscriptionData": item})
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        await peer.heartbeat("one", consumer_data("G", item))
        assert (await _pull(peer))[0] == ResponseCode.SYSTEM_ERROR
        expression = {"subscription": "TAGS = 'TagA'", "expressionType": "SQL92"}
        assert (await _pull(peer, sysFlag=4, **expression))[0] == ResponseCode.SYSTEM_ERROR
        assert (await _pull(peer, sysFlag=4, subscription="TagA"))[1] == [0]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (None, ResponseCode.SUCCESS), (subscription("T", "||"), ResponseCode.SUCCESS),
        (subscription("T", "a = 1", expressionType="SQL92"), ResponseCode.SUCCESS),
        (subscription("T", "a =", expressionType="SQL92"), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (subscription("T", "a = 1", expressionType="NONE"), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)  # fmt: skip
async def test_clients_ask_whether_an_expression_is_good(item: dict[str, Any] | None, code: ResponseCode) -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        answer = await peer.ask(CHECK, {"clientId": "one", "group": "G", "subscriptionData": item})
        assert answer.code == code

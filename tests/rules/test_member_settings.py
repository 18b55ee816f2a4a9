from __future__ import annotations

import pytest

from rmqctl.model.group import ProcessQueueInfo, RunningInfo
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.member_settings import (
    NO_LIMIT,
    MemberSettings,
    both_ways,
    is_broadcasting_group,
    member_settings,
    pops,
    pulls,
    retry_limit,
)


def _settings(**properties: str) -> MemberSettings:
    return member_settings(RunningInfo(properties, {}, {}))


def test_a_java_client_reports_its_settings_as_texts() -> None:
    told = _settings(
        consumeFromWhere="CONSUME_FROM_TIMESTAMP", maxReconsumeTimes="-1", consumeTimeout="15",
        PROP_CONSUMEORDERLY="true",
    )  # fmt: skip
    assert told == MemberSettings("CONSUME_FROM_TIMESTAMP", -1, 900_000, is_orderly=True)
    assert _settings(consumeTimeout="0.5").consume_timeout_ms == 30_000


@pytest.mark.parametrize("text", ["", "x", "1" * 30, "-", "nan", "inf", "1e300", "\u0661"])
def test_what_is_no_number_is_not_known(text: str) -> None:
    told = _settings(maxReconsumeTimes=text, consumeTimeout=text)
    assert told.max_reconsume_times is None
    assert told.consume_timeout_ms is None or text == "\u0661"
    assert _settings() == MemberSettings(None, None, None, is_orderly=None)


@pytest.mark.parametrize(("text", "size"), [("16", 16), ("0", None), ("-1", None), ("x", None), ("", None)])
def test_how_many_messages_a_call_gets(text: str, size: int | None) -> None:
    assert _settings(consumeMessageBatchMaxSize=text).batch_size == size


@pytest.mark.parametrize(
    ("max_reconsume_times", "is_orderly", "limit"),
    [(-1, False, 16), (-1, True, NO_LIMIT), (-1, None, None), (0, None, 0), (2, True, 2), (None, False, None)],
)
def test_a_limit_of_minus_one_is_the_default_of_how_it_consumes(
    max_reconsume_times: int | None, is_orderly: bool | None, limit: int | None
) -> None:
    assert retry_limit(max_reconsume_times, is_orderly=is_orderly) == limit


_A0, _A1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
_ALL, _RETRY = MessageQueue("T", "a", -1), MessageQueue("%RETRY%G", "a", 0)
_ASSIGNED = {"clientRebalance": "false"}


def _member(*pulled: MessageQueue, popped: tuple[MessageQueue, ...] = (), **properties: str) -> RunningInfo:
    held = ProcessQueueInfo(0, 0, 0, None, dropped=False)
    return RunningInfo(properties, dict.fromkeys(pulled, held), dict.fromkeys(popped, 0))


@pytest.mark.parametrize(
    ("what", "info", "modes"),
    [
        ("pulls", _member(_A0), "pull"),
        ("has no share", _member(), "pull"),
        ("pops, and pulls retries", _member(_RETRY, popped=(_ALL,), **_ASSIGNED), "pop"),
        ("pops one topic and pulls another", _member(_A0, popped=(MessageQueue("U", "a", -1),), **_ASSIGNED), "both"),
        ("is assigned queues to pull", _member(_A0, **_ASSIGNED), "pull"),
        ("is assigned nothing but retries", _member(_RETRY, **_ASSIGNED), "neither"),
        ("consumes in order", _member(**_ASSIGNED, PROP_CONSUMEORDERLY="true"), "pull"),
        ("broadcasts", _member(**_ASSIGNED, messageModel="BROADCASTING"), "pull"),
        ("reports pop", _member(PROP_CONSUME_TYPE="CONSUME_POP"), "pop"),
    ],
)
def test_whether_a_member_pops_or_pulls_is_what_it_reports(what: str, info: RunningInfo, modes: str) -> None:
    found = {(True, False): "pop", (False, True): "pull", (True, True): "both", (False, False): "neither"}
    assert found[pops(info), pulls(info)] == modes


def test_what_brokers_report_counts_for_members_that_report_nothing() -> None:
    assert (pops(_member(), "CONSUME_POP"), pulls(_member(), "CONSUME_POP")) == (True, False)
    push = _member(PROP_CONSUME_TYPE="CONSUME_PASSIVELY")
    assert (pops(push, "CONSUME_POP"), pulls(push, "CONSUME_POP")) == (False, True)


@pytest.mark.parametrize(
    ("members", "queues"),
    [
        ({"pop": _member(popped=(_ALL,)), "pull": _member(_A0)}, {_A0: (("pull",), ("pop",))}),
        ({"pop": _member(popped=(_A0,)), "pull": _member(_A1)}, {}),
        ({"pop": _member(popped=(_ALL,)), "other": _member(popped=(_ALL,))}, {}),
        ({"one": _member(_A0, popped=(_A0,))}, {}),
        ({"pop": _member(popped=(_ALL,)), "cast": _member(_A0, messageModel="BROADCASTING")}, {}),
    ],
)
def test_queues_that_are_pulled_and_popped(
    members: dict[str, RunningInfo], queues: dict[MessageQueue, tuple[tuple[str, ...], tuple[str, ...]]]
) -> None:
    assert both_ways(members, (_A0, _A1)) == queues


@pytest.mark.parametrize(
    ("models", "at_brokers", "is_broadcasting"),
    [
        (["BROADCASTING", "BROADCASTING"], "CLUSTERING", True),
        (["BROADCASTING", "CLUSTERING"], "BROADCASTING", False),
        ([], "BROADCASTING", True),
        ([""], "CLUSTERING", False),
    ],
)
def test_a_group_broadcasts_if_all_members_do(models: list[str], at_brokers: str, is_broadcasting: bool) -> None:
    members = [_member(messageModel=model) for model in models]
    assert is_broadcasting_group(members, [at_brokers]) == is_broadcasting

from __future__ import annotations

import pytest

from rmqctl.changes.dlq.rules.replay import (
    MARK,
    ReplayTarget,
    ReplayTargetKind,
    mark_of,
    replay_properties,
    retry_target,
)

_RETRY, _ORIGIN, _TOPIC = (
    retry_target("G"),
    ReplayTarget(ReplayTargetKind.ORIGIN, None),
    ReplayTarget(ReplayTargetKind.TOPIC, "T"),
)
_LEFT_BY_DELIVERIES = {
    "RETRY_TOPIC": "orders", "DELAY": "0", "REAL_TOPIC": "%RETRY%G", "REAL_QID": "0", "WAIT": "false", "CLUSTER": "C",
    "MSG_REGION": "R", "TRACE_ON": "true", "PGROUP": "P", "TRAN_MSG": "true", "MAX_RECONSUME_TIMES": "3",
    "TIMER_OUT_MS": "1", "TIMER_DELIVER_MS": "2", "1ST_POP_TIME": "3", "INNER_NUM": "2",
}  # fmt: skip
_OWN = {"KEYS": "k1 k2", "TAGS": "A", "UNIQ_KEY": "U", "ORIGIN_MESSAGE_ID": "O", "__SHARDINGKEY": "s", "colour": "red"}


@pytest.mark.parametrize("target", [_RETRY, _ORIGIN, _TOPIC])
def test_what_stays_and_what_goes(target: ReplayTarget) -> None:
    made = replay_properties({**_LEFT_BY_DELIVERIES, **_OWN}, target, mark="m", message_id="X")
    retried = {"RETRY_TOPIC": "orders"} if target.is_retry else {}
    assert made == {**_OWN, **retried, "WAIT": "true", MARK: "m"}


def test_one_without_a_unique_key_gets_one_and_an_earlier_mark_is_replaced() -> None:
    made = replay_properties({MARK: "old"}, _TOPIC, mark="new", message_id="X")
    assert made == {"UNIQ_KEY": "X", "WAIT": "true", MARK: "new"}
    assert mark_of("l", "broker-a", 0, 7) == "l broker-a:0:7"


@pytest.mark.parametrize(
    ("target", "properties", "topic"),
    [
        (_RETRY, {"RETRY_TOPIC": "orders"}, "%RETRY%G"), (_ORIGIN, {"RETRY_TOPIC": "orders"}, "orders"),
        (_TOPIC, {"RETRY_TOPIC": "orders"}, "T"), (_RETRY, {}, None), (_ORIGIN, {}, None), (_TOPIC, {}, "T"),
    ],
)  # fmt: skip
def test_where_it_goes(target: ReplayTarget, properties: dict[str, str], topic: str | None) -> None:
    assert target.topic_of(properties) == topic

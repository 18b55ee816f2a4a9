"""The same answers as RocketMQ's own classes: what 5.4.0's gave is recorded in tests/golden/strategies.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Options, find_strategy, sort_client_ids, sort_queues

_FILE = Path(__file__).parents[2] / "golden" / "strategies.json"
CASES: list[dict[str, Any]] = json.loads(_FILE.read_text())["cases"]


def _queues(case: dict[str, Any], pairs: list[list[Any]]) -> list[MessageQueue]:
    return [MessageQueue(case["topic"], broker_name, queue_id) for broker_name, queue_id in pairs]


def _options(case: dict[str, Any]) -> Options:
    params = case.get("params") or {}
    configured = params.get("messageQueueList")
    return Options(
        virtual_nodes=params.get("virtualNodeCnt", 10),
        rooms=params.get("consumeridcs", ()),
        configured=None if configured is None else _queues(case, configured),
        share_count=params.get("popShareQueueNum", 0),
        inner=params.get("inner", "AVG"),
    )


def _inputs(case: dict[str, Any]) -> tuple[list[MessageQueue], list[str]]:
    queues, client_ids = _queues(case, case["mqAll"]), case["cidAll"]
    return (sort_queues(queues), sort_client_ids(client_ids)) if case["presort"] else (queues, client_ids)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case["id"]) for case in CASES if "errors" not in case and case["id"] != "config-02-unset"],
)
def test_shares_are_those_of_the_class(case: dict[str, Any]) -> None:
    queues, client_ids = _inputs(case)
    got = find_strategy(case["strategy"], _options(case)).allocate(queues, client_ids)
    # The class was asked once for each client; one that is not in the list got nothing.
    assert set(got) == set(client_ids)
    for client_id, expected in case["result"].items():
        # The broker's method lists "all queues of the broker" once a queue; what it answers is a set of that.
        assert got.get(client_id, []) == list(dict.fromkeys(_queues(case, expected))), client_id


def test_the_class_by_config_has_none_to_give_before_it_is_told() -> None:
    (case,) = (case for case in CASES if case["id"] == "config-02-unset")
    assert set(case["result"].values()) == {None}
    with pytest.raises(AllocationError, match="needs the queues of each client"):
        find_strategy("CONFIG", _options(case))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if "errors" in case])
def test_what_the_class_refuses_is_refused(case: dict[str, Any]) -> None:
    queues, client_ids = _inputs(case)
    asked = list(case["errors"])
    strategy = find_strategy(case["strategy"], _options(case))
    with pytest.raises(AllocationError):
        # It also refuses to tell the share of a client without an id.
        strategy.allocate(queues, [*client_ids, *(client_id for client_id in asked if not client_id)])


def test_every_case_is_looked_at() -> None:
    assert len(CASES) == 54

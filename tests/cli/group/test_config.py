from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from tests.scripted_peer import V4_9_7

from .groups import healthy, show_config, torn, torn_config

Captured = pytest.CaptureFixture[str]


def _items(listing: Listing, capsys: Captured) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    render(listing, Display(format="json"))
    return {item["brokerName"]: item for item in json.loads(capsys.readouterr().out)["items"]}


def test_a_brokers_configuration_has_rocketmqs_names_and_all_of_it_under_settings(capsys: Captured) -> None:
    item = _items(show_config(healthy()), capsys)["broker-a"]
    assert (item["isConfigured"], item["retryQueueNums"], item["retryMaxTimes"]) == (True, 1, 16)
    assert (item["consumeTimeoutMinute"], item["forbiddenTopics"], item["differingFields"]) == (15, [], [])
    assert item["settings"]["groupRetryPolicy"] == {"type": "CUSTOMIZED"}
    assert item["reasons"] == {}


def test_what_an_old_broker_does_not_know_is_null_for_that_reason(capsys: Captured) -> None:
    item = _items(show_config(healthy(V4_9_7)), capsys)["broker-a"]
    assert item["reasons"] == {"consumeMessageOrderly": "BROKER_TOO_OLD", "consumeTimeoutMinute": "BROKER_TOO_OLD"}


@pytest.mark.parametrize("nonsense", [None, "15", 1.5, True, [], {"a": 1}])
def test_a_setting_that_is_no_number_is_null_and_stands_under_settings_as_it_came(
    nonsense: object, capsys: Captured
) -> None:
    cluster = healthy()
    cluster.brokers["broker-a"].group_configs["G"] = {"consumeTimeoutMinute": nonsense}
    item = _items(show_config(cluster), capsys)["broker-a"]
    assert (item["consumeTimeoutMinute"], item["reasons"]) == (None, {"consumeTimeoutMinute": "NOT_REPORTED"})
    assert item["settings"]["consumeTimeoutMinute"] == nonsense


def test_differences_are_named_at_each_broker_that_has_a_configuration(capsys: Captured) -> None:
    items = _items(show_config(torn_config()), capsys)
    differing = ["consumeEnable", "forbiddenTopics", "retryQueueNums"]
    assert items["broker-a"]["differingFields"] == items["broker-c"]["differingFields"] == differing
    assert (items["broker-a"]["forbiddenTopics"], items["broker-c"]["forbiddenTopics"]) == (["T"], [])
    assert items["broker-b"]["differingFields"] == []


def test_a_broker_without_the_group_keeps_its_row_and_is_noted(capsys: Captured) -> None:
    item = _items(show_config(torn()), capsys)["broker-b"]
    assert (item["isConfigured"], item["settings"], item["retryQueueNums"]) == (False, {}, None)
    assert set(item["reasons"].values()) == {"NOT_CONFIGURED"}
    render(show_config(torn()), Display(format="plain"))
    captured = capsys.readouterr()
    assert captured.err == "broker-b has no configuration of this group.\n"
    assert captured.out.splitlines()[2].split() == ["broker-b", *"------"]
    assert captured.out.splitlines()[1].split() == ["broker-a", "no", "yes", "0", "16", "yes", "-"]


def test_names_are_the_brokers(capsys: Captured) -> None:
    render(show_config(torn()), Display(format="name"))
    assert capsys.readouterr().out.splitlines() == ["broker-a", "broker-b"]

"""Metrics: the names of 5.x brokers, no sample for what is unknown, and a dashboard that uses only what exists."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from rmqctl.errors import UsageError
from rmqctl.observe.fleet_activity import GroupActivity, GroupKey, InFlight
from rmqctl.rules.health import HealthSettings
from rmqctl.watch.health import HealthWindow
from rmqctl.watch.metrics import Exporter, MetricsRound

from .test_health import A0, B0, MINUTE_MS, recorded

_PAY = GroupKey("C", "pay")


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    running = Exporter("127.0.0.1", 0)
    yield running
    running.close()


def _scrape(exporter: Exporter) -> dict[str, dict[Mapping[str, str], float]]:
    """Return the samples by name and labels, as Prometheus reads them."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{exporter.port}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    return {
        sample.name: {frozenset(each.labels.items()): each.value for each in family.samples if each.name == sample.name}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }  # type: ignore[misc]


def _published(activity: GroupActivity, *, is_u_known: bool = True) -> MetricsRound:
    window = HealthWindow(5 * MINUTE_MS, HealthSettings())
    for at in range(4):
        window.add(recorded(at * MINUTE_MS, {A0: (5, 9), B0: (7, 7) if is_u_known else (None, None)}))
    groups = window.judge(3 * MINUTE_MS)
    return MetricsRound(3 * MINUTE_MS, groups, {_PAY: activity}, 1, {"broker-a": 12}, 2, lambda: 3)


def _labels(topic: str) -> frozenset[tuple[str, str]]:
    return frozenset({"cluster": "C", "topic": topic, "consumer_group": "pay", "is_retry": "false"}.items())


def test_known_values_have_the_names_that_brokers_use(exporter: Exporter) -> None:
    in_flight = {"T": InFlight(3, 1), "U": InFlight()}
    exporter.publish(_published(GroupActivity(in_flight=in_flight, dead_letters=2)))
    found = _scrape(exporter)
    assert found["rocketmq_consumer_lag_messages"] == {_labels("T"): 4, _labels("U"): 0}
    assert found["rocketmq_consumer_inflight_messages"] == {_labels("T"): 3, _labels("U"): 0}
    assert found["rocketmq_consumer_ready_messages"] == {_labels("T"): 1, _labels("U"): 0}
    assert found["rocketmq_send_to_dlq_messages_total"] == {_labels("%DLQ%pay"): 2}
    assert {labels for labels, value in found["rmqctl_watch_health"].items() if value} == {
        frozenset({"cluster": "C", "consumer_group": "pay", "rmqctl_watch_health": "STALL"}.items())
    }
    assert list(found["rmqctl_watch_members"].values()) == [1]
    assert list(found["rmqctl_watch_requests_total"].values()) == [12]
    assert list(found["rmqctl_watch_round_timestamp_seconds"].values()) == [180]
    assert list(found["rmqctl_watch_failed_alerts_total"].values()) == [2]
    assert list(found["rmqctl_watch_waiting_alerts"].values()) == [3]


def test_what_is_unknown_has_no_sample(exporter: Exporter) -> None:
    assert _scrape(exporter) == {}
    exporter.publish(_published(GroupActivity(), is_u_known=False))
    found = _scrape(exporter)
    assert found["rocketmq_consumer_lag_messages"] == {_labels("T"): 4}
    # The age of the first unread message of T is only known to be at least that of the first sample.
    for name in ("lag_latency_milliseconds", "inflight_messages", "ready_messages"):
        assert f"rocketmq_consumer_{name}" not in found
    assert "rocketmq_send_to_dlq_messages_total" not in found
    assert list(found["rmqctl_watch_failures"].values()) == [1]


@pytest.mark.parametrize(("is_u_known", "exact"), [(True, {"T": 4, "U": 0}), (False, {"T": 4})])
def test_lower_bounds_have_a_sample_of_each_topic(
    exporter: Exporter, *, is_u_known: bool, exact: dict[str, int]
) -> None:
    exporter.publish(_published(GroupActivity(), is_u_known=is_u_known))
    found = _scrape(exporter)
    assert found["rocketmq_consumer_lag_messages"] == {_labels(topic): lag for topic, lag in exact.items()}
    assert found["rmqctl_consumer_lag_messages_at_least"] == {_labels("T"): 4, _labels("U"): 0}
    assert found["rmqctl_consumer_lag_latency_at_least_milliseconds"] == {_labels("T"): 3 * MINUTE_MS, _labels("U"): 0}


def test_an_address_in_use_is_refused(exporter: Exporter) -> None:
    with pytest.raises(UsageError, match="Cannot serve --metrics"):
        Exporter("127.0.0.1", exporter.port)


def _panels() -> list[dict[str, Any]]:
    dashboard = json.loads(files("rmqctl.watch").joinpath("dashboard.json").read_text())
    panels: list[dict[str, Any]] = dashboard["panels"]
    return panels


def test_the_dashboard_uses_only_metrics_and_labels_that_exist(exporter: Exporter) -> None:
    in_flight = {"T": InFlight(3, 1), "U": InFlight()}
    published = _published(GroupActivity(in_flight=in_flight, dead_letters=2))
    window = HealthWindow(5 * MINUTE_MS, HealthSettings())
    window.add(recorded(0, {A0: (9, 9)}))
    exporter.publish(published)
    found = _scrape(exporter)
    exporter.publish(MetricsRound(1, window.judge(0)))
    found |= {name: samples for name, samples in _scrape(exporter).items() if name not in found}
    used = set()
    for panel in _panels():
        for target in panel["targets"]:
            for name, selector in re.findall(r"\b((?:rocketmq|rmqctl)_\w+)(\{[^}]*\})?", target["expr"]):
                if f"{name}=" in target["expr"] and name not in found:
                    continue
                if name in ("rmqctl_watch_health",) and not selector and f"by ({name})" in target["expr"]:
                    continue
                assert name in found, name
                used.add(name)
                labels = {label for sample in found[name] for label, _ in sample}
                assert set(re.findall(r"(\w+)(?:=~|!=|=)", selector or "")) <= labels, target["expr"]
    # Its panels of the lag must not be empty in an outage.
    replaced = {"rocketmq_consumer_lag_messages", "rocketmq_consumer_lag_latency_milliseconds"}
    assert {name for name in found if name.startswith("rocketmq_")} - replaced <= used
    assert not replaced & used


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    panels = _panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        cells |= taken


def test_messages_that_no_consumer_can_read_have_a_series_of_their_own(exporter: Exporter) -> None:
    window = HealthWindow(5 * MINUTE_MS, HealthSettings())
    window.add(recorded(0, {A0: (5, 9)}))
    groups = window.judge(0, {}, {_PAY: {A0._replace(queue_id=4): 3}})
    exporter.publish(MetricsRound(1, groups))
    found = _scrape(exporter)
    assert found["rmqctl_consumer_unreadable_messages"] == {_labels("T"): 3}
    assert found["rocketmq_consumer_lag_messages"] == {_labels("T"): 4}

"""The last round as OpenMetrics, under the names that 5.x brokers use for their own metrics.

Differences from a broker's own: a series covers all brokers of a cluster; an unknown value has no sample, where a
broker reports 0; rocketmq_send_to_dlq_messages_total counts what ever reached the dead-letter topic, whose name is the
label `topic`. A series with `at_least` has a sample in every round: the known value, else a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.observe.fleet_activity import GroupActivity, GroupKey
from rmqctl.rules.health import WORST_FIRST

from .health import GroupHealth

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LABELS = ("cluster", "topic", "consumer_group", "is_retry")
_GROUP_LABELS = ("cluster", "consumer_group")


class MetricsRound(Struct, frozen=True):
    """What is exported: one round."""

    at_ms: int = 0
    groups: Sequence[GroupHealth] = ()
    activities: Mapping[GroupKey, GroupActivity] = {}
    failure_count: int = 0
    request_counts: Mapping[str, int] = {}
    failed_alert_count: int = 0
    waiting_alert_count: Callable[[], int] = lambda: 0


class Exporter:
    """Serves metrics over HTTP. Raises UsageError when the address cannot be used."""

    def __init__(self, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        self._published = MetricsRound()
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"Cannot serve --metrics {host}:{port}: {reason}.") from None
        self.port: int = self._server.server_port

    def publish(self, published: MetricsRound) -> None:
        """Replace what is exported."""
        self._published = published

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics (prometheus_client's Collector); called in a thread of the server."""
        return families(self._published)


def families(published: MetricsRound) -> Iterator[Metric]:
    """Yield the metrics of a round; a metric without a known value is left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, StateSetMetricFamily

    if not published.at_ms:
        return
    lag = GaugeMetricFamily("rocketmq_consumer_lag_messages", "Unread messages.", labels=_LABELS)
    latency = GaugeMetricFamily(
        "rocketmq_consumer_lag_latency_milliseconds", "Age of the oldest unread message.", labels=_LABELS
    )
    lag_at_least = GaugeMetricFamily(
        "rmqctl_consumer_lag_messages_at_least", "Unread messages of the queues that were read.", labels=_LABELS
    )
    latency_at_least = GaugeMetricFamily(
        "rmqctl_consumer_lag_latency_at_least_milliseconds",
        "Least age of the oldest unread message of the queues that were read.",
        labels=_LABELS,
    )
    unreadable = GaugeMetricFamily(
        "rmqctl_consumer_unreadable_messages",
        "Unread messages in queues that no consumer can read; no lag counts them.",
        labels=_LABELS,
    )
    inflight = GaugeMetricFamily(
        "rocketmq_consumer_inflight_messages", "Messages that were pulled and not committed.", labels=_LABELS
    )
    ready = GaugeMetricFamily("rocketmq_consumer_ready_messages", "Messages that were not pulled yet.", labels=_LABELS)
    letters = CounterMetricFamily(
        "rocketmq_send_to_dlq_messages", "Messages that reached the dead-letter topic.", labels=_LABELS
    )
    health = StateSetMetricFamily("rmqctl_watch_health", "The verdict on the group.", labels=_GROUP_LABELS)
    members = GaugeMetricFamily("rmqctl_watch_members", "Members of the group.", labels=_GROUP_LABELS)
    for group in published.groups:
        cluster, name = group.key
        activity = published.activities.get(group.key) or GroupActivity()
        for topic in group.topics():
            # Brokers give this label to the retry topics of POP only.
            is_retry = topic.startswith(RETRY_PREFIX) and topic != RETRY_PREFIX + name
            labels = cluster, topic, name, str(is_retry).lower()
            topic_lag, time_lag = group.lag(topic), group.time_lag(topic)
            _add(lag, labels, topic_lag.value)
            _add(latency, labels, time_lag.ms)
            _add(lag_at_least, labels, topic_lag.at_least)
            _add(unreadable, labels, sum(count for mq, count in group.unreadable.items() if mq.topic == topic))
            _add(latency_at_least, labels, time_lag.at_least_ms)
            found = (activity.in_flight or {}).get(topic)
            _add(inflight, labels, None if found is None else found.inflight)
            _add(ready, labels, None if found is None else found.ready)
        _add(letters, (cluster, DLQ_PREFIX + name, name, "false"), activity.dead_letters)
        health.add_metric((cluster, name), {each.value: each is group.health for each in WORST_FIRST})
        _add(members, (cluster, name), group.member_count)
    lags = (lag, latency, lag_at_least, latency_at_least, unreadable)
    for family in (*lags, inflight, ready, letters, health, members):
        if family.samples:
            yield family
    yield GaugeMetricFamily(
        "rmqctl_watch_round_timestamp_seconds", "When the groups were read.", published.at_ms / 1000
    )
    yield GaugeMetricFamily("rmqctl_watch_failures", "Parts that the last round did not read.", published.failure_count)
    requests = CounterMetricFamily("rmqctl_watch_requests", "Requests to a broker.", labels=("broker",))
    for broker_name, count in sorted(published.request_counts.items()):
        requests.add_metric((broker_name,), count)
    yield requests
    yield CounterMetricFamily("rmqctl_watch_failed_alerts", "Alerts that were dropped.", published.failed_alert_count)
    yield GaugeMetricFamily(
        "rmqctl_watch_waiting_alerts", "Alerts that wait for their delivery.", published.waiting_alert_count()
    )


def _add(family: Any, labels: Sequence[str], value: int | None) -> None:
    if value is not None:
        family.add_metric(labels, value)

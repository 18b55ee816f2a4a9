"""Which verdicts are reported: once per incident, and again when they become worse."""

from __future__ import annotations

import msgspec
import pytest

from rmqctl.model.group import GroupState
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.rules.health import Cause, Health, QueueVerdict, judge_group
from rmqctl.rules.time_lag import TimeLag
from rmqctl.watch.health import GroupHealth, QueueHealth
from rmqctl.watch.incidents import AlertKind, Incidents, OpenIncident
from rmqctl.watch.items import environment_of, notification
from tests.schemas import check_document

MINUTE_MS = 60_000
_MQ = MessageQueue("T", "a", 0)
_CAUSES = {
    "REWIND": Cause.WENT_BACK, "STOP": Cause.NOBODY_COMMITS, "STALL": Cause.STANDS_STILL,
    "WARN": Cause.LAG_GROWS, "UNKNOWN": Cause.OFFSET_UNKNOWN, "EARLY": Cause.TOO_FEW_SAMPLES,
    "OK": Cause.LAG_FALLS,
}  # fmt: skip


def group_of(name: str, at_ms: int, group: str = "pay") -> GroupHealth:
    """Return a verdict; EARLY is an UNKNOWN that only lacks samples."""
    health = Health.UNKNOWN if name == "EARLY" else Health(name)
    queue = QueueHealth(_MQ, QueueVerdict(health, _CAUSES[name], "as it is"), None, TimeLag(None))
    verdict = judge_group({_MQ: queue.verdict})
    return GroupHealth(GroupKey("C", group), at_ms, GroupState.ONLINE, verdict, (queue,), ("one",))


@pytest.mark.parametrize(
    ("notify_at", "verdicts", "expected"),
    [
        ("WARN", "OK STALL STALL OK STALL OK STALL", ["1 OPENED STALL"]),
        ("WARN", "STALL OK OK OK OK", ["0 OPENED STALL", "4 RESOLVED STALL"]),
        ("WARN", "WARN STALL WARN STOP OK STOP", ["0 OPENED WARN", "1 WORSENED STALL", "3 WORSENED STOP"]),
        ("STALL", "WARN OK WARN UNKNOWN", []),
        ("STALL", "STALL WARN WARN WARN WARN", ["0 OPENED STALL", "4 RESOLVED STALL"]),
        # What is unknown is not better.
        ("WARN", "STALL OK OK UNKNOWN OK OK OK OK", ["0 OPENED STALL", "7 RESOLVED STALL"]),
        ("UNKNOWN", "EARLY UNKNOWN UNKNOWN OK OK OK OK", ["1 OPENED UNKNOWN", "6 RESOLVED UNKNOWN"]),
        ("WARN", "UNKNOWN UNKNOWN", []),
        ("WARN", "STALL OK OK OK OK STALL", ["0 OPENED STALL", "4 RESOLVED STALL", "5 OPENED STALL"]),
    ],
)  # fmt: skip
def test_an_incident_is_reported_once_and_again_only_when_it_is_worse(
    notify_at: str, verdicts: str, expected: list[str]
) -> None:
    incidents = Incidents(Health(notify_at), 3 * MINUTE_MS)
    found = []
    for minute, name in enumerate(verdicts.split()):
        found += [
            f"{minute} {alert.kind} {alert.worst}" for alert in incidents.update([group_of(name, minute * MINUTE_MS)])
        ]
    assert found == expected


def test_incidents_of_groups_are_their_own_and_end_with_them() -> None:
    incidents = Incidents(Health.WARN, MINUTE_MS)
    alerts = incidents.update([group_of("STALL", 0), group_of("STOP", 0, "ship")])
    assert [alert.incident for alert in alerts] == ["C/pay/0", "C/ship/0"]
    assert incidents.update([group_of("STALL", MINUTE_MS)]) == []
    # The group ship was not read, so its incident stays open.
    assert incidents.update([group_of("STALL", MINUTE_MS), group_of("STOP", MINUTE_MS, "ship")]) == []
    # It was deleted, and created again.
    (gone,) = incidents.resolve_gone([GroupKey("C", "ship"), GroupKey("C", "other")], MINUTE_MS)
    assert (gone.kind, gone.is_gone, gone.incident) == (AlertKind.RESOLVED, True, "C/ship/0")
    (again,) = incidents.update([group_of("STALL", 2 * MINUTE_MS), group_of("STOP", 2 * MINUTE_MS, "ship")])
    assert again.incident == f"C/ship/{2 * MINUTE_MS}"


@pytest.mark.parametrize(
    ("notify_at", "verdicts", "expected"),
    [
        ("WARN", "STALL STALL STALL STALL STALL", ["0 OPENED", "2 REPEATED", "4 REPEATED"]),
        ("WARN", "WARN STOP STOP STOP", ["0 OPENED", "1 WORSENED", "3 REPEATED"]),
        # A group that is better just then is not reported, one that cannot be read is.
        ("WARN", "STALL OK OK STALL", ["0 OPENED", "3 REPEATED"]),
        ("STALL", "STALL WARN WARN WARN WARN", ["0 OPENED", "4 RESOLVED"]),
        ("WARN", "STALL EARLY EARLY UNKNOWN", ["0 OPENED", "3 REPEATED"]),
    ],
)
@pytest.mark.parametrize("restart_minute", [None, 1, 2, 3])
def test_an_open_incident_is_repeated(
    notify_at: str, verdicts: str, expected: list[str], restart_minute: int | None
) -> None:
    """A restart changes nothing: what is stored is enough."""
    incidents = Incidents(Health(notify_at), 3 * MINUTE_MS, repeat_ms=2 * MINUTE_MS)
    alerts = []
    for minute, name in enumerate(verdicts.split()):
        if minute == restart_minute:
            stored = msgspec.json.decode(msgspec.json.encode(incidents.open), type=list[OpenIncident])
            incidents = Incidents(Health(notify_at), 3 * MINUTE_MS, repeat_ms=2 * MINUTE_MS, stored=stored)
        alerts += [(minute, alert) for alert in incidents.update([group_of(name, minute * MINUTE_MS)])]
    assert [f"{minute} {alert.kind}" for minute, alert in alerts] == expected
    assert {alert.incident for _, alert in alerts} == {"C/pay/0"}


@pytest.mark.parametrize(("is_restarted", "health", "worst_queue"), [(False, "STOP", "T@a:0"), (True, "UNKNOWN", None)])
def test_the_incident_of_a_group_that_is_gone_is_resolved_with_what_is_known(
    is_restarted: bool, health: str, worst_queue: str | None
) -> None:
    incidents = Incidents(Health.WARN, MINUTE_MS)
    incidents.update([group_of("STOP", 0)])
    if is_restarted:
        incidents = Incidents(Health.WARN, MINUTE_MS, stored=incidents.open)
    alerts = incidents.resolve_gone([GroupKey("C", "pay")], 12 * MINUTE_MS)
    alerts += incidents.update([group_of("WARN", 12 * MINUTE_MS, "ship")])
    assert [open_.key.group for open_ in incidents.open] == ["ship"]
    document = notification(alerts)
    check_document(document)
    ship, pay = document["items"]
    assert (ship["gone"], pay["gone"], pay["worst"]) == (False, True, "STOP")
    assert (pay["health"], pay["worstQueue"], pay["at"]) == (health, worst_queue, 12 * MINUTE_MS)
    assert pay["text"] == (
        "Resolved: pay (C) no longer exists or has no queues; it was STOP at worst, and the incident lasted 12m00s."
    )


def test_a_repeated_alert_says_how_old_the_incident_is() -> None:
    incidents = Incidents(Health.WARN, MINUTE_MS, repeat_ms=MINUTE_MS)
    incidents.update([group_of("STALL", 0)])
    document = notification(incidents.update([group_of("STALL", 130 * MINUTE_MS)]))
    check_document(document)
    assert document["text"] == "Still STALL: pay (C). T@a:0: as it is. The incident began 2h10m ago."


def test_one_notification_has_all_groups_of_a_round_worst_first() -> None:
    incidents = Incidents(Health.WARN, MINUTE_MS)
    groups = [group_of("STALL", 0, f"g{number}") for number in range(900)] + [group_of("STOP", 0, "ship")]
    document = notification(incidents.update(groups))
    assert (document["kind"], document["alertCount"], len(document["items"])) == ("AlertList", 901, 901)
    first = document["items"][0]
    assert (first["group"], first["health"], first["nextCommand"]) == ("ship", "STOP", "rmqctl diagnose ship")
    lines = document["text"].splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("896 more groups")
    environment = environment_of(document)
    assert (environment["RMQCTL_GROUP"], environment["RMQCTL_ALERT_COUNT"]) == ("ship", "901")

"""Which verdicts are reported: once per incident, and again when they become worse."""

from __future__ import annotations

import pytest

from rmqctl.model.group import GroupState
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.rules.health import Cause, Health, QueueVerdict, judge_group
from rmqctl.rules.time_lag import TimeLag
from rmqctl.watch.health import GroupHealth, QueueHealth
from rmqctl.watch.incidents import Incidents
from rmqctl.watch.items import environment_of, notification

MINUTE_MS = 60_000
_MQ = MessageQueue("T", "a", 0)
_CAUSES = {
    "REWIND": Cause.WENT_BACK, "STOP": Cause.NOBODY_COMMITS, "STALL": Cause.STANDS_STILL,
    "WARN": Cause.LAG_NEVER_FALLS, "UNKNOWN": Cause.OFFSET_UNKNOWN, "EARLY": Cause.TOO_FEW_SAMPLES,
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
    # The group ship was deleted, and created again.
    (again,) = incidents.update([group_of("STALL", 2 * MINUTE_MS), group_of("STOP", 2 * MINUTE_MS, "ship")])
    assert again.incident == f"C/ship/{2 * MINUTE_MS}"


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

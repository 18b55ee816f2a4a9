"""Whole watches on a scripted cluster and a virtual clock: what is recorded is judged alike, and costs stay bounded."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rmqctl.errors import NotAuthorisedError, RmqctlError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import VirtualClock
from rmqctl.observe.fleet_sampler import FleetSampler
from rmqctl.observe.recording import read_recording
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.rules.health import Health, HealthSettings, QueueVerdict
from rmqctl.watch.health import GroupHealth, HealthWindow
from rmqctl.watch.incidents import Incidents
from rmqctl.watch.recorder import Recorder
from rmqctl.watch.rounds import Watch, WatchRound, round_summary
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.scripted_peer import DROP, passing, refused, run

WINDOW_MS = 300_000
A0 = MessageQueue("T", "broker-a", 0)


def watch_rounds(
    cluster: Cluster, count: int, *, before: Callable[[int], None] = lambda _: None, recorder: Recorder | None = None,
    every_s: float = 15.0, sent: list[dict[str, Any]] | None = None, keep_count: int = 100,
    incidents: Incidents | None = None,
) -> list[WatchRound]:  # fmt: skip
    """Return the last rounds; `before` is called with the number of each."""

    async def main() -> list[WatchRound]:
        async with cluster.client(open_ended=True) as client:
            watch = Watch(
                FleetSampler(client, (), every_s=every_s, rate_per_s=2.0),
                HealthWindow(WINDOW_MS, HealthSettings()),
                Incidents(Health.WARN, 60_000) if incidents is None else incidents,
                clock=client.clock,
                every_s=every_s,
                recorder=recorder,
                send=(sent if sent is not None else []).append,
            )

            async def read() -> list[WatchRound]:
                rounds: deque[WatchRound] = deque(maxlen=keep_count)
                number = 0
                before(number)
                async with aclosing(watch.rounds()) as found:
                    async for each in found:
                        rounds.append(each)
                        number += 1
                        if number == count:
                            break
                        before(number)
                return list(rounds)

            return await passing(cluster.clock, read(), limit_s=4200)

    return run(main())


def moving_cluster() -> tuple[Cluster, Callable[[int], None]]:
    """Return groups that get every verdict, and what happens before each round."""
    names = ("follows", "grows", "dies", "stalls", "goes-back", "is-unknown")
    offsets = {name: {"T": {0: 100, 1: 100}} for name in names}
    at_end = {name: {"T": {0: 50}} for name in names if name != "is-unknown"}
    a = BrokerState("broker-a", topics={"T": [Queue(200), Queue(200)]}, offsets=offsets, configured=set(names))
    b = BrokerState("broker-b", topics={"T": [Queue(50)]}, offsets=at_end, configured=set(names))
    holding = running({A0: held(commit=100), A0._replace(queue_id=1): held(commit=100)})
    a.groups = b.groups = {name: Group({"one": holding}) for name in names if name != "dies"}
    cluster = Cluster(a, b)

    def before(number: int) -> None:
        for queue in a.topics["T"]:
            queue.max_offset += 20
        follows, grows, back = (offsets[name]["T"] for name in ("follows", "grows", "goes-back"))
        follows[0], grows[0] = a.topics["T"][0].max_offset - (5 if number % 2 else 9), grows[0] + 1
        back[0] += -30 if number == 4 else 5
        if number >= 6:
            cluster.servers["broker-b"].table.update(dict.fromkeys(list(cluster.servers["broker-b"].table), DROP))
        if number == 8:
            a.topics["T"][1] = Queue(3)  # recreated

    return cluster, before


def verdicts_of(groups: list[GroupHealth]) -> dict[tuple[str, MessageQueue], QueueVerdict]:
    return {(group.key.group, each.mq): each.verdict for group in groups for each in group.queues}


def test_samples_read_back_from_the_recording_are_judged_alike(tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    recorder = Recorder(str(path), most_bytes=1 << 24, keep_count=0)
    cluster, before = moving_cluster()
    rounds = watch_rounds(cluster, 12, before=before, recorder=recorder)
    recorder.close()
    with path.open("rb") as lines:
        samples = list(read_recording(lines, "groups.jsonl"))
    seen = set()
    for found in rounds:
        window = HealthWindow(WINDOW_MS, HealthSettings())
        for recorded in samples:
            if recorded.sample.at_ms <= found.at_ms:
                window.add(recorded)
        live, again = (verdicts_of(list(groups)) for groups in (found.groups, window.judge(found.at_ms)))
        assert again == live
        seen |= {verdict.health for verdict in live.values()}
    assert seen == set(Health)


def test_changes_and_alerts_are_those_of_settled_verdicts() -> None:
    cluster, before = moving_cluster()
    sent: list[dict[str, Any]] = []
    rounds = watch_rounds(cluster, 8, before=before, sent=sent, every_s=30.0)
    changes = [
        (group.key.group, each.befores.get(group.key), group.health) for each in rounds for group in each.changes
    ]
    assert ("dies", None, Health.STOP) in changes
    assert ("stalls", None, Health.STALL) in changes
    assert ("goes-back", Health.STALL, Health.REWIND) in changes
    alerts = [(item["group"], item["alert"]) for document in sent for item in document["items"]]
    assert alerts.count(("dies", "OPENED")) == alerts.count(("stalls", "OPENED")) == 1
    assert [group.key.group for group in rounds[0].changes] == ["is-unknown"]


def _alerts(sent: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    return [(item["group"], item["alert"], item["gone"]) for document in sent for item in document["items"]]


def _two_brokers() -> tuple[Cluster, dict[str, dict[str, dict[int, int]]]]:
    """Return a cluster whose group pay does not move on broker-a, and the offsets there."""
    offsets = {"pay": {"T": {0: 1}}, "ship": {"T": {0: 9}}}
    a = BrokerState("broker-a", topics={"T": [Queue(9)]}, offsets=offsets, configured=set(offsets))
    return Cluster(a, BrokerState("broker-b", topics={"T": [Queue(0)]}, offsets={})), offsets


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("silent", [None, "broker-a", "broker-b"])
def test_a_group_is_gone_only_in_a_round_that_read_everything(silent: str | None, is_restarted: bool) -> None:
    cluster, offsets = _two_brokers()
    incidents, sent = Incidents(Health.WARN, 60_000), list[dict[str, Any]]()
    tables = {name: dict(server.table) for name, server in cluster.servers.items()}
    counts = []

    def before(number: int) -> None:
        if number == 5:
            del offsets["pay"]
            if silent is not None:
                cluster.servers[silent].table.update(dict.fromkeys(tables[silent], DROP))
        if number == 7:
            counts.append(len(sent))
            for name, table in tables.items():
                cluster.servers[name].table.update(table)

    if is_restarted:
        watch_rounds(cluster, 5, before=before, sent=sent, incidents=incidents)
        incidents = Incidents(Health.WARN, 60_000, stored=incidents.open)
        watch_rounds(cluster, 5, before=lambda number: before(number + 5), sent=sent, incidents=incidents)
    else:
        watch_rounds(cluster, 10, before=before, sent=sent, incidents=incidents)
    assert _alerts(sent) == [("pay", "OPENED", False), ("pay", "RESOLVED", True)]
    assert len({item["incident"] for document in sent for item in document["items"]}) == 1
    assert counts == [2 if silent is None else 1]
    assert not incidents.open


def test_a_broker_that_left_the_cluster_while_the_watch_was_down_keeps_incidents_open() -> None:
    cluster, _ = _two_brokers()
    incidents, sent = Incidents(Health.WARN, 60_000), list[dict[str, Any]]()
    watch_rounds(cluster, 5, sent=sent, incidents=incidents)
    (stored,) = incidents.open
    assert stored.broker_names == {"broker-a", "broker-b"}
    left = Cluster(BrokerState("broker-b", topics={"T": [Queue(9)]}, offsets={"ship": {"T": {0: 9}}}))
    again = Incidents(Health.WARN, 60_000, stored=incidents.open)
    watch_rounds(left, 3, sent=sent, incidents=again)
    assert _alerts(sent) == [("pay", "OPENED", False)]
    assert [incident.key.group for incident in again.open] == ["pay"]


def test_a_recording_that_fails_is_a_failure_of_the_round(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster, before = moving_cluster()
    recorder = Recorder(str(tmp_path / "r"), most_bytes=1 << 24, keep_count=0)

    def fail(_: object) -> None:
        raise RmqctlError("Cannot write r: no space left on device.")

    monkeypatch.setattr(recorder, "write", fail)
    (found,) = watch_rounds(cluster, 1, before=before, recorder=recorder)
    recorder.close()
    assert [failure.what for failure in found.failures] == ["recording"]
    assert found.groups


def _tried_rounds(cluster: Cluster, *, keeps_trying: bool, for_s: float | None = None) -> list[WatchRound]:
    """Return one round that was read and those before it; after the first one, all brokers answer."""

    async def main() -> list[WatchRound]:
        async with cluster.client(open_ended=True) as client:
            sampler = FleetSampler(client, (), every_s=5.0, rate_per_s=10.0)
            window, incidents = HealthWindow(WINDOW_MS, HealthSettings()), Incidents(Health.WARN, 0)
            watch = Watch(sampler, window, incidents, clock=client.clock, every_s=5.0)

            async def read() -> list[WatchRound]:
                found = []
                async with aclosing(watch.rounds(for_s=for_s, most=1, keeps_trying=keeps_trying)) as rounds:
                    async for each in rounds:
                        found.append(each)
                        cluster.network.refusing.clear()
                return found

            return await passing(cluster.clock, read())

    return run(main())


def _down_cluster() -> Cluster:
    cluster = Cluster(BrokerState("broker-a", topics={"T": [Queue(200)]}, offsets={"pay": {"T": {0: 100}}}))
    cluster.stop("broker-a")
    return cluster


def test_a_first_round_that_no_server_answers_is_tried_again() -> None:
    unread, read = _tried_rounds(_down_cluster(), keeps_trying=True)
    assert (unread.is_read, unread.groups, round_summary(unread)) == (False, (), "Not read yet.")
    (failure,) = unread.failures
    assert isinstance(failure.error, UnreachableError)
    assert (read.is_read, [group.key.group for group in read.groups], read.failures) == (True, ["pay"], [])
    assert 5000 <= read.at_ms - unread.at_ms < 6000


def _denying_cluster() -> Cluster:
    cluster = _down_cluster()
    cluster.network.refusing.clear()
    cluster.servers["broker-a"].table.update(dict.fromkeys(Q, refused(R.NO_PERMISSION)))
    return cluster


@pytest.mark.parametrize(
    ("cluster", "keeps_trying", "for_s", "error"),
    [
        (_down_cluster, False, None, UnreachableError),
        (_down_cluster, True, 4.0, UnreachableError),  # no time for another try
        (_denying_cluster, True, None, NotAuthorisedError),
    ],
)
def test_a_first_round_raises_what_no_other_try_can_fix(
    cluster: Callable[[], Cluster],
    keeps_trying: bool,
    for_s: float | None,
    error: type[RmqctlError],
) -> None:
    with pytest.raises(error):
        _tried_rounds(cluster(), keeps_trying=keeps_trying, for_s=for_s)


def test_many_groups_cost_a_bounded_rate_of_requests_and_no_memory() -> None:
    """At most two requests per second to each broker, where all groups' details in one round would take ten."""
    names = [f"group-{number:03}" for number in range(100)]
    topics = {f"T{number:02}": [Queue(1000)] for number in range(20)}
    brokers = [
        BrokerState(
            name, topics=topics, configured=set(names),
            offsets={group: {f"T{number % 20:02}": {0: 900}} for number, group in enumerate(names)},
        )
        for name in ("broker-a", "broker-b")
    ]  # fmt: skip
    cluster = Cluster(*brokers, clock=VirtualClock())
    seconds: dict[str, list[int]] = {broker.name: [] for broker in brokers}
    for name, server in cluster.servers.items():
        for code, reply in list(server.table.items()):

            def counted(request: Any, name: str = name, reply: Any = reply) -> Any:
                seconds[name].append(int(cluster.clock.monotonic_s()))
                return reply(request)

            server.table[code] = counted
    objects = []

    def before(number: int) -> None:
        for queues in topics.values():
            queues[0].max_offset += 1
        for server in cluster.servers.values():
            server.asked.clear()
        if number in (40, 59):  # each group was asked for its details by then
            gc.collect()
            objects.append(len(gc.get_objects()))

    (found,) = watch_rounds(cluster, 60, before=before, every_s=10.0, keep_count=1)
    assert len(found.groups) == 100
    for name, at_s in seconds.items():
        assert max(at_s) > 560
        assert max(at_s.count(second) for second in set(at_s)) <= 2, name
    assert objects[1] < objects[0] * 1.01
    # Every group was asked for its members in that time, none of which there are.
    assert {group.health for group in found.groups} <= {Health.STALL, Health.STOP}

"""Rounds for the screen of `rmqctl top`: when a group that was named is reported as missing."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.top.session import ScreenSession
from rmqctl.cli.watch.session import WatchSettings
from rmqctl.errors import NotFoundError
from rmqctl.rules.health import Health
from rmqctl.watch.incidents import Incidents
from rmqctl.watch.rounds import Watch
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import passing, run


@pytest.mark.parametrize(
    ("silent", "round_count"),
    [
        ((), 0),
        (("broker-b",), 1),  # the group may exist there
        (("broker-a", "broker-b"), 1),
    ],
)
def test_a_missing_group_ends_the_rounds_once_all_brokers_answer(silent: tuple[str, ...], round_count: int) -> None:
    offsets = {"pay": {"T": {0: 100}}}
    states = [BrokerState(name, topics={"T": [Queue(200)]}, offsets=offsets) for name in ("broker-a", "broker-b")]
    cluster = Cluster(*states)
    for name in silent:
        cluster.stop(name)
    settings = WatchSettings(groups=("typo",), every_s=5.0, window_ms=300_000, lag_allowance=0, rate_per_s=10.0)
    rounds = []

    async def main() -> None:
        async with cluster.client(open_ended=True) as client:
            incidents = Incidents(Health.WARN, 0)
            watch = Watch(settings.sampler(client), settings.window(), incidents, clock=client.clock, every_s=5.0)

            async def read() -> None:
                session = ScreenSession(settings, Display(), "test")
                async with aclosing(session._rounds(client, watch)) as each_round:
                    async for found in each_round:
                        rounds.append(found)
                        cluster.network.refusing.clear()

            await passing(cluster.clock, read())

    with pytest.raises(NotFoundError, match="typo"):
        run(main())
    assert len(rounds) == round_count

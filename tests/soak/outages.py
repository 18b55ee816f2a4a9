"""A member of ours that is stopped or cut off for long, beside Java's: nothing is lost, and little comes twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

from tests.real.harness.cluster import Cluster
from tests.real.harness.consumer import our_consumers
from tests.real.harness.outages import Outage, run_outage
from tests.real.harness.relay import Relay

# Offsets are stored each 5 s: what was done since, or in work, comes again where others take over.
_UNSTORED_S = 7.0
# While members share anew, two may hold a queue.
_SHARING_S = 25.0
# Brokers give a client up after 120 s, and look each 10 s.
_STOPS_S = (60.0, 150.0)
_CUTS_S = (40.0, 150.0)


def run_outages(cluster: Cluster, folder: Path) -> Iterator[tuple[str, Outage, bool]]:
    """Give what was done, what came of it, and whether that is as it should be."""
    folder.mkdir()
    for seconds in _STOPS_S:
        with our_consumers(cluster.namesrv, folder / f"stopped-{seconds:.0f}") as ours:
            seen = run_outage(
                cluster, ours, f"Stopped-{seconds:.0f}", out_s=seconds, after_s=_SHARING_S,
                begin=lambda member: member.process.send_signal(signal.SIGSTOP),
                end=lambda member: member.process.send_signal(signal.SIGCONT),
            )  # fmt: skip
        yield f"stopped for {seconds:.0f} s", seen, is_good(seen)
    for seconds in _CUTS_S:
        relay = Relay(cluster.brokers["broker-a"].port)
        try:
            with our_consumers(cluster.namesrv, folder / f"cut-{seconds:.0f}") as ours:
                seen = run_outage(
                    cluster, ours, f"Cut-{seconds:.0f}", "--map-address", f"broker-a={relay.address}", out_s=seconds,
                    after_s=_SHARING_S, begin=lambda _, cut=relay: cut.swallow(), end=lambda _, cut=relay: cut.heal(),
                    is_cut=lambda queue: queue.startswith("broker-a"),
                )  # fmt: skip
        finally:
            relay.close()
        yield f"cut off from a broker for {seconds:.0f} s", seen, is_good(seen)


def is_good(seen: Outage) -> bool:
    """Tell whether nothing was lost, and what came twice was in work or unstored when it began, or was being shared."""
    return not seen.lost and all(
        -_UNSTORED_S <= first.at_s - seen.began_s <= 1
        or (first.at_s >= seen.ended_s - 1 and second.at_s - first.at_s <= _SHARING_S)
        for first, second in seen.again
    )

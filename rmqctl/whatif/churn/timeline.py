"""One run over time: how many queues each client pulled, and how many had no owner or two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from .changes import BrokerStart, BrokerStop, Change, CutBegin, CutEnd, MemberEnd, MemberStart
from .track import Span, Track, sum_parts

# Lengths of parts that people read easily; longer ones are whole hours.
_ROUND_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800)
_HOUR_MS = 3_600_000


class ClientRow(Struct, frozen=True):
    """One client, with all its processes, by part of the time.

    `queues` is the average number of queues that it pulled while it ran, None where it did not run. `is_cut`: it could
    not reach brokers. `pull_count` is how many times it began to pull a queue.
    """

    client_id: str
    queues: tuple[float | None, ...]
    is_cut: tuple[bool, ...]
    pull_count: int


class Timeline(Struct, frozen=True):
    """One run in parts of `part_ms`.

    `shared` and `unowned` are the average numbers of queues with two or more owners, and with none. `is_down` are the
    brokers that stopped, and in which parts they were down.
    """

    part_ms: int
    clients: tuple[ClientRow, ...]
    shared: tuple[float, ...]
    unowned: tuple[float, ...]
    is_down: Mapping[str, tuple[bool, ...]]

    def busiest(self, most_count: int) -> list[ClientRow]:
        """Return those clients that began to pull most often, in their order."""
        rows = sorted(self.clients, key=lambda row: -row.pull_count)[:most_count]
        names = {row.client_id for row in rows}
        return [row for row in self.clients if row.client_id in names]


def round_part_ms(for_ms: int, most_parts: int) -> int:
    """Return the shortest length that people read easily with which there are at most `most_parts`."""
    least_ms = for_ms / most_parts
    hours_ms = -int(-least_ms // _HOUR_MS) * _HOUR_MS
    return next((part_s * 1000 for part_s in _ROUND_S if part_s * 1000 >= least_ms), hours_ms)


def make_timeline(
    track: Track, changes: Iterable[Change], client_ids: Sequence[str], *, for_ms: float, part_ms: int
) -> Timeline:
    """Return the timeline of a run with these changes, of a group that has these clients at the beginning."""
    lives = _Lives(client_ids, for_ms)
    for change in changes:
        if change.at_ms < for_ms:
            lives.follow(change)
    pulled: dict[str, list[Span]] = {client_id: [] for client_id in lives.alive}
    for client_id, spans in track.pulled.items():
        pulled[lives.origins[client_id]] += spans

    def sums(spans: Iterable[Span]) -> list[float]:
        return sum_parts(spans, part_ms=part_ms, for_ms=for_ms)

    lengths_ms = sums([Span(0, for_ms)])
    return Timeline(
        part_ms=part_ms,
        clients=tuple(
            ClientRow(
                client_id=client_id,
                queues=_ratios(sums(pulled[client_id]), sums(alive)),
                is_cut=tuple(map(bool, sums(lives.cut.get(client_id, ())))),
                pull_count=len(pulled[client_id]),
            )
            for client_id, alive in lives.alive.items()
        ),
        shared=tuple(each or 0.0 for each in _ratios(sums(track.shared), lengths_ms)),
        unowned=tuple(each or 0.0 for each in _ratios(sums(track.unowned), lengths_ms)),
        is_down={name: tuple(map(bool, sums(spans))) for name, spans in lives.down.items()},
    )


def _ratios(sums_ms: Sequence[float], lengths_ms: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(
        sum_ms / length_ms if length_ms else None for sum_ms, length_ms in zip(sums_ms, lengths_ms, strict=True)
    )


class _Lives:
    """When clients ran and were cut off, and when brokers were down; a span is open until its end is known."""

    def __init__(self, client_ids: Iterable[str], for_ms: float) -> None:
        self._for_ms = for_ms
        self.origins = {client_id: client_id for client_id in client_ids}
        self.alive = {client_id: [Span(0, for_ms)] for client_id in self.origins}
        self.cut: dict[str, list[Span]] = {}
        self.down: dict[str, list[Span]] = {}

    def follow(self, change: Change) -> None:
        """Note one change; they come in order."""
        if isinstance(change, MemberStart):
            origin = self.origins[change.client_id] = change.origin or change.client_id
            self._open(self.alive, origin, change)
        elif isinstance(change, MemberEnd):
            self._close(self.alive, self.origins[change.client_id], change)
        elif isinstance(change, CutBegin):
            self._open(self.cut, self.origins[change.client_id], change)
        elif isinstance(change, CutEnd):
            self._close(self.cut, self.origins[change.client_id], change)
        elif isinstance(change, BrokerStop):
            self._open(self.down, change.broker_name, change)
        elif isinstance(change, BrokerStart):
            self._close(self.down, change.broker_name, change)

    def _open(self, spans: dict[str, list[Span]], name: str, change: Change) -> None:
        spans.setdefault(name, []).append(Span(change.at_ms, self._for_ms))

    def _close(self, spans: dict[str, list[Span]], name: str, change: Change) -> None:
        spans[name][-1] = spans[name][-1]._replace(ended_ms=change.at_ms)

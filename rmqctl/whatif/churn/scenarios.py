"""What happens to a group in a simulation, as operators name it: a member flaps, all restart, some join or leave."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.text.durations import exact_duration
from rmqctl.text.names import closest
from rmqctl.text.words import counted

from .changes import BrokerStart, BrokerStop, Change, CutBegin, CutEnd, Departure, MemberEnd, MemberStart

# When a change that happens once begins.
_ONCE_AT_MS = 10_000
# No process restarts exactly on time; a protection time that depends on it does not protect.
_VARIED_SHARE = 0.1


class ScenarioKind(StrEnum):
    """What happens."""

    FLAP = "flap"
    ROLLING = "rolling"
    SCALE = "scale"
    BROKER_FLAP = "broker-flap"
    PARTITION = "partition"


class ChurnScenario(Struct, frozen=True, kw_only=True):
    """One kind of change, with its times in ms.

    `period_ms`: a member or broker that flaps is away and back for this long each; rolling restarts a member this
    often; a partition lasts this long. `client_id` flaps or is cut off, CLIENT/BROKER from one broker only;
    `broker_name` flaps. `count` members join, or leave if it is negative. Members that leave do so in the way of
    `departure`; with `new_ids` they rejoin under another id.
    """

    kind: ScenarioKind
    period_ms: int = 0
    client_id: str = ""
    broker_name: str = ""
    count: int = 0
    down_ms: int = 0
    departure: Departure = Departure.STOP
    new_ids: bool = True

    def changes(self, client_ids: Sequence[str], broker_names: Sequence[str], for_ms: float) -> list[Change]:
        """Return the changes in a group of these clients and brokers, in order.

        Raises NotFoundError for a name that the group does not have, UsageError when more would leave than there are.
        """
        return sorted(self._changes(client_ids, broker_names, for_ms), key=lambda change: change.at_ms)

    def change_count(self, client_ids: Sequence[str], for_ms: int) -> int:
        """Return about how many changes there are."""
        if self.kind in _ENDLESS:
            return for_ms // self.period_ms
        return {ScenarioKind.SCALE: abs(self.count), ScenarioKind.PARTITION: 2}.get(self.kind, 2 * len(client_ids))

    def first_change_ms(self) -> int:
        """Return when the first change is."""
        return _ONCE_AT_MS if self.kind in (ScenarioKind.SCALE, ScenarioKind.PARTITION) else self.period_ms

    def last_change_ms(self, client_ids: Sequence[str]) -> int | None:
        """Return when the last change is, None if changes do not end."""
        if self.kind in _ENDLESS:
            return None
        if self.kind is ScenarioKind.ROLLING:
            return self.period_ms * len(client_ids) + self.down_ms
        return _ONCE_AT_MS + self.period_ms

    def words(self, client_ids: Sequence[str], broker_names: Sequence[str]) -> str:
        """Return a clause that says what happens."""
        period = exact_duration(self.period_ms)
        if self.kind is ScenarioKind.FLAP:
            return f"{self._client(client_ids)} {_LEAVES[self.departure]} and rejoins every {period}"
        if self.kind is ScenarioKind.SCALE:
            verbs = ("joins", "join") if self.count > 0 else (_LEAVES[self.departure], _LEAVE[self.departure])
            return f"{counted(abs(self.count), 'client')} {verbs[abs(self.count) > 1]}"
        if self.kind is ScenarioKind.BROKER_FLAP:
            return f"{self._broker(broker_names)} stops and starts every {period}"
        if self.kind is ScenarioKind.PARTITION:
            client_id, only = self._cut_off(client_ids, broker_names)
            return f"{client_id} cannot reach {only or 'any broker'} for {period}"
        down = exact_duration(self.down_ms)
        return f"every {period} another client {_LEAVES[self.departure]}, and rejoins after {down}"

    def _changes(self, client_ids: Sequence[str], broker_names: Sequence[str], for_ms: float) -> Iterator[Change]:
        if self.kind is ScenarioKind.FLAP:
            return self._flap(self._client(client_ids), for_ms)
        if self.kind is ScenarioKind.ROLLING:
            return self._roll(client_ids)
        if self.kind is ScenarioKind.SCALE:
            return self._scale(client_ids)
        if self.kind is ScenarioKind.BROKER_FLAP:
            return self._flap_broker(self._broker(broker_names), for_ms)
        client_id, only = self._cut_off(client_ids, broker_names)
        cut = (only,) if only else tuple(broker_names)
        return iter((CutBegin(_ONCE_AT_MS, client_id, cut), CutEnd(_ONCE_AT_MS + self.period_ms, client_id, cut)))

    def _flap(self, client_id: str, for_ms: float) -> Iterator[Change]:
        names = self._names(client_id)
        name, at_ms = next(names), self.period_ms
        while at_ms < for_ms:
            yield MemberEnd(at_ms, name, self.departure)
            name = next(names)
            yield MemberStart(at_ms + self.period_ms, name, origin=client_id)
            at_ms += 2 * self.period_ms

    def _roll(self, client_ids: Sequence[str]) -> Iterator[Change]:
        for number, client_id in enumerate(client_ids, 1):
            names, at_ms = self._names(client_id), number * self.period_ms
            yield MemberEnd(at_ms, next(names), self.departure)
            yield MemberStart(at_ms + self.down_ms, next(names), origin=client_id)

    def _scale(self, client_ids: Sequence[str]) -> Iterator[Change]:
        if -self.count > len(client_ids):
            raise UsageError(f"--scale {self.count}: the group has only {counted(len(client_ids), 'client')}.")
        for client_id in client_ids[len(client_ids) + min(0, self.count) :]:
            yield MemberEnd(_ONCE_AT_MS, client_id, self.departure)
        for number in range(1, self.count + 1):
            # New clients sort anywhere; here they sort last.
            yield MemberStart(_ONCE_AT_MS, f"{client_ids[-1]}+{number}")

    def _flap_broker(self, broker_name: str, for_ms: float) -> Iterator[Change]:
        at_ms = self.period_ms
        while at_ms < for_ms:
            yield BrokerStop(at_ms, broker_name)
            yield BrokerStart(at_ms + self.period_ms, broker_name)
            at_ms += 2 * self.period_ms

    def _names(self, client_id: str) -> Iterator[str]:
        """Yield the ids of a member's processes; new ids sort next to the old one, as those with process ids do."""
        yield client_id
        number = 1
        while True:
            yield f"{client_id}~{number}" if self.new_ids else client_id
            number += 1

    def _cut_off(self, client_ids: Sequence[str], broker_names: Sequence[str]) -> tuple[str, str]:
        """Return the client that is cut off, and the only broker that it cannot reach, empty for all."""
        client_id, slash, broker_name = self.client_id.rpartition("/")
        if self.client_id in client_ids or not slash:
            return self._client(client_ids), ""
        return _chosen("Client", client_id, client_ids), _chosen("Broker", broker_name, broker_names)

    def _client(self, client_ids: Sequence[str]) -> str:
        return _chosen("Client", self.client_id, client_ids)

    def _broker(self, broker_names: Sequence[str]) -> str:
        return _chosen("Broker", self.broker_name, broker_names)


def varied(changes: Sequence[Change], seed: int) -> list[Change]:
    """Return changes whose intervals are up to a tenth shorter or longer; those at once stay so."""
    draw = random.Random(seed).uniform  # noqa: S311 - a simulation must be repeatable
    found: list[Change] = []
    at_ms = before_ms = 0.0
    for change in changes:
        at_ms += (change.at_ms - before_ms) * draw(1 - _VARIED_SHARE, 1 + _VARIED_SHARE)
        before_ms = change.at_ms
        found.append(replace(change, at_ms=at_ms))
    return found


_ENDLESS = (ScenarioKind.FLAP, ScenarioKind.BROKER_FLAP)
_LEAVES = {Departure.STOP: "leaves", Departure.KILL: "is killed", Departure.VANISH: "vanishes"}
_LEAVE = {Departure.STOP: "leave", Departure.KILL: "are killed", Departure.VANISH: "vanish"}


def _chosen(kind: str, name: str, names: Sequence[str]) -> str:
    """Return a name of a group, the first one when none is given. Raises NotFoundError."""
    if name and name not in names:
        raise NotFoundError(kind, name, suggestions=closest(name, names))
    return name or names[0]


def require_possible(scenario: ChurnScenario) -> None:
    """Raise UsageError for a scenario in which nothing happens, or not what is given."""
    is_leaving = scenario.kind in (ScenarioKind.FLAP, ScenarioKind.ROLLING)
    if scenario.departure is not Departure.STOP and not is_leaving and scenario.count >= 0:
        raise UsageError(f"--leave is for clients that leave, not for --{scenario.kind}.")
    if not scenario.new_ids and not is_leaving:
        raise UsageError(f"--same-ids is for clients that rejoin, not for --{scenario.kind}.")
    if scenario.kind is ScenarioKind.SCALE:
        if scenario.count == 0:
            raise UsageError("--scale 0 changes nothing.", hint="Use for example --scale +3 or --scale -2.")
    elif scenario.period_ms == 0:
        raise UsageError(f"--{scenario.kind} 0: the time must be greater than 0.")

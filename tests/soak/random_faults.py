"""Brokers and name servers fail at random while rmqctl reads and changes: exit 0 always means all of it.

Two brokers and two name servers; each round has a fault before or in the middle of one command, and is healed after it.
What a change says of each queue is compared with what is stored when all is healed, and so is what an undo says that
runs while the change's own writes may still be under way. Half of the time rmqctl has lost its memory of the cluster.
Some rounds compare what several commands say of a cluster that stands still.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.name_server import NameServer
from tests.real.harness.process import JavaProcess
from tests.real.harness.rmqctl import Result, Rmqctl

_TOPIC, _GROUP, _MESSAGES, _QUEUES = "Random", "random", 400, 4
_NAMES = ("broker-a", "broker-b")
_READS = (
    ("offset", "show", _GROUP), ("group", "list", _GROUP), ("cluster", "list"), ("topic", "status", _TOPIC),
    ("offset", "export", _GROUP), ("group", "describe", _GROUP),
)  # fmt: skip
_FAULTS = ("nothing", "kill", "end", "pause", "pause", "no server", "empty server", "mute server")
# Those in which a cluster stands still, and those that who has no memory of the broker cannot see.
_STILL, _BLINDING = ("nothing", "kill", "end", "no server", "empty server"), ("kill", "end")
_COMPARED = (("offset", "show", _GROUP), ("group", "list", _GROUP), ("group", "describe", _GROUP))
# Written and unanswered: it may be stored later, until the broker has worked off what it had received.
_LATE_S = 1.5


class RandomFaults:
    """One cluster, what can be stored in each of its queues, and what went wrong so far."""

    def __init__(self, version: str, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}
        self._second = NameServer(version, folder / "second").start()
        self._cluster = Cluster(
            version, folder / "home", broker_count=2, more_name_servers=dict.fromkeys(_NAMES, self._second.address)
        )
        self._both = f"{self._cluster.namesrv};{self._second.address}"
        self._state = folder / "state"
        self._rmqctl = Rmqctl(self._both, state=str(self._state))
        self._stored: dict[tuple[str, int], int] = {}
        # Every offset that was ever stored: a broker that is killed can come back with an older one.
        self._ever: dict[tuple[str, int], set[int]] = {}

    def close(self) -> None:
        """End all processes."""
        self._cluster.stop()
        self._second.kill()

    def begin(self) -> None:
        """Fill the topic, store an offset in each queue, and let rmqctl see all of it once."""
        self._second.wait()
        self._cluster.wait()
        self._cluster.create_topic(_TOPIC, queue_count=_QUEUES)
        self._cluster.java.produce(_TOPIC, _MESSAGES)
        self._cluster.close_java()
        self._healed()
        for words in (
            ("group", "create", _GROUP, "--yes"), (*self._reset(5), "--yes"), *_READS
        ):  # fmt: skip
            result = self._rmqctl(*words)
            assert result.exit_code == 0, result.stderr
        self._note_stored()

    def run(self, seconds: float) -> None:
        """Go on for so long."""
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:
            is_cold = self.dice.random() < 0.5
            if is_cold:
                for path in self._state.glob("cluster-*.json"):
                    path.unlink()
            if self.dice.random() < 0.25:
                self._compare(is_cold=is_cold)
            else:
                self._round(is_cold=is_cold)

    def _compare(self, *, is_cold: bool) -> None:
        """Ask three commands for the group's lag, one after the other: they say the same, and end alike."""
        name, fault, heal, _ = self._fault(_STILL)
        fault()
        time.sleep(_LATE_S)  # until the name servers have noticed
        told = {}
        for words in self.dice.sample(_COMPARED, len(_COMPARED)):
            result = self._rmqctl(*words, "-o", "json", namesrv=self._order())
            items = _items(result)
            lag = result.document.get("summary") or (items[0] if items else {})
            told[" ".join(words[:2])] = (result.exit_code, lag.get("lag"), lag.get("lagAtLeast"))
        heal()
        self._healed()
        self._count(f"compared: {name} {' '.join(sorted({str(code) for code, *_ in told.values()}))}")
        if len(set(told.values())) > 1:
            self.wrong.append(f"{name}, {'cold' if is_cold else 'warm'}: {told}")
        self._note_stored()

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _round(self, *, is_cold: bool) -> None:
        name, fault, heal, is_killed = self._fault(_FAULTS)
        is_blind = is_cold and name.split()[0] in _BLINDING
        words = self._command()
        is_change = "--yes" in words
        began = threading.Timer(self.dice.choice((0.0, 0.0, self.dice.uniform(0.02, 1.0))), fault)
        began.start()
        if began.interval == 0.0:
            began.join()
        result = self._rmqctl(*words, "-o", "json", "--timeout", "6s", namesrv=self._order())
        began.join()
        undone = self._undo_at_once(result) if is_change and not is_killed and self.dice.random() < 0.5 else None
        heal()
        self._healed()
        what = f"{' '.join(words)} with {name}, {'cold' if is_cold else 'warm'}: exit {result.exit_code}"
        self._count(f"{name} {result.exit_code}")
        if undone is not None:
            self._check_undone(result, undone, what)
        elif is_change:
            self._check_change(result, what, is_killed, is_blind=is_blind)
        elif result.exit_code == 0 and not is_blind:
            self._check_read(words, result, what)
        if is_killed:
            self._note_stored()

    def _order(self) -> str:
        servers = self._both.split(";")
        self.dice.shuffle(servers)
        return ";".join(servers)

    def _command(self) -> tuple[str, ...]:
        if self.dice.random() < 0.5:
            return self.dice.choice(_READS)
        partial = ("--partial",) if self.dice.random() < 0.3 else ()
        return (*self._reset(self.dice.randrange(40)), "--wait-stable", "2s", "--yes", *partial)

    @staticmethod
    def _reset(offset: int) -> tuple[str, ...]:
        return ("offset", "reset", _GROUP, "--topic", _TOPIC, "--to-offset", str(offset))

    def _fault(self, kinds: tuple[str, ...]) -> tuple[str, Callable[[], object], Callable[[], object], str | None]:
        """Return a fault's name, its beginning and end, and the broker that is killed without storing what it has."""
        cluster, name = self._cluster, self.dice.choice(_NAMES)
        broker = cluster.brokers[name]
        first, second = cluster.name_server, self._second
        server = self.dice.choice((first, second))

        def start_empty() -> None:
            server.kill()
            server.start().wait()

        def restart() -> None:
            broker.start()
            broker.wait()

        def end_well() -> None:
            _java(broker.java).process.terminate()
            _java(broker.java).process.wait(30)

        def pause(java: JavaProcess | None) -> tuple[Callable[[], object], Callable[[], object]]:
            return _java(java).pause, lambda: (time.sleep(self.dice.uniform(0, 2)), _java(java).resume())

        kind = self.dice.choice(kinds)
        match kind:
            case "kill":
                return f"{kind} {name}", broker.kill, restart, name
            case "end":
                return f"{kind} {name}", end_well, restart, None
            case "pause":
                return (f"{kind} {name}", *pause(broker.java), None)
            case "no server":
                return kind, server.kill, lambda: server.start().wait(), None
            case "empty server":
                return kind, start_empty, lambda: None, None
            case "mute server":
                return (kind, *pause(server.java), None)
        return kind, lambda: None, lambda: None, None

    def _healed(self) -> None:
        """Wait until both name servers list both brokers, and both answer."""

        def is_whole() -> bool:
            return all(
                [item["brokerName"] for item in _items(result)] == list(_NAMES) and result.exit_code == 0
                for server in self._both.split(";")
                for result in [Rmqctl(server)("cluster", "list", "-o", "json")]
            )

        wait_until(is_whole, 90)

    def _read_stored(self) -> dict[tuple[str, int], int]:
        result = self._rmqctl("offset", "show", _GROUP, "--topic", _TOPIC, "-o", "json")
        return {(item["brokerName"], item["queueId"]): item["consumerOffset"] for item in _items(result)}

    def _note_stored(self) -> None:
        self._stored = self._read_stored()
        for place, offset in self._stored.items():
            self._ever.setdefault(place, set()).add(offset)

    def _check_read(self, words: tuple[str, ...], result: Result, what: str) -> None:
        """Exit 0: all queues with their offsets, all brokers, a lag that is known."""
        items = _items(result)
        match words[:2]:
            case ("offset", _):
                told = {
                    (item["brokerName"], item["queueId"]): item["consumerOffset"]
                    for item in items
                    if item["topic"] == _TOPIC
                }
                is_whole = told == self._stored
            case ("cluster", _):
                is_whole = [(item["brokerName"], item["error"]) for item in items] == [(name, None) for name in _NAMES]
            case ("topic", _):
                is_whole = len(items) == 2 * _QUEUES and all(item["maxOffset"] is not None for item in items)
            case _:
                is_whole = items[0]["lag"] == _MESSAGES - sum(self._stored.values())
        if not is_whole:
            self.wrong.append(f"{what}, and it is not whole: {result.stdout[:2000]}")

    def _undo_at_once(self, result: Result) -> Result | None:
        """Undo a change as long as the fault lasts; None where it changed nothing."""
        if not any(item["result"] in ("CONFIRMED", "UNKNOWN") for item in _receipt_items(result)):
            return None
        receipt_id = result.document["id"]
        return self._rmqctl("offset", "undo", receipt_id, "--yes", "-o", "json", "--timeout", "6s")

    def _check_undone(self, change: Result, undone: Result, what: str) -> None:
        """Exit 0: all is as before the change, and stays so; what is confirmed is so in any case."""
        self._count(f"undone at once {undone.exit_code}")
        time.sleep(_LATE_S)
        before, now = self._stored, self._read_stored()
        if undone.exit_code == 0:
            places = {_place(item) for item in _receipt_items(change) if item["result"] != "NOT_ATTEMPTED"}
        else:
            places = {_place(item) for item in _receipt_items(undone) if item["result"] == "CONFIRMED"}
        wrong = {place: (before[place], now[place]) for place in places if now[place] != before[place]}
        if wrong:
            said = f"{undone.stdout[:1500]} {undone.stderr[:500]}"
            self.wrong.append(f"{what}; undone at once: exit {undone.exit_code}, wrong {wrong}: {said}")
        self._note_stored()

    def _check_change(self, result: Result, what: str, killed: str | None, *, is_blind: bool) -> None:
        time.sleep(_LATE_S)
        before, now = self._stored, self._read_stored()
        items = _receipt_items(result)
        told = {_place(item): item for item in items}
        confirmed = {place for place, item in told.items() if item["result"] == "CONFIRMED"}
        if result.stdout and result.document["kind"] == "Plan":
            # Everything was where it was to go; then the plan is all that is printed.
            confirmed = {_place(item) for item in _items(result) if item["before"] == item["target"]}
        if result.exit_code == 0 and confirmed != set(now) and not is_blind:
            self.wrong.append(f"{what}, and not all of it was done: {result.stdout[:2000]}")
        for place, offset in now.items():
            item = told.get(place)
            outcome = "NOT_ATTEMPTED" if item is None else item["result"]
            target = None if item is None else item["target"]
            allowed = {
                "CONFIRMED": {target}, "UNKNOWN": {target, before[place]}
            }.get(outcome, {before[place]})  # fmt: skip
            if place[0] == killed:
                allowed = allowed | self._ever[place] | {target}
            if offset not in allowed:
                self.wrong.append(f"{what}: {place} was {before[place]}, {outcome} to {target}, and is {offset}")
        self._note_stored()
        if any(item["result"] in ("CONFIRMED", "UNKNOWN") for item in items) and self.dice.random() < 0.6:
            self._undo(result.document["id"], {place: before[place] for place in told}, what)

    def _undo(self, receipt_id: str, before: dict[tuple[str, int], int], what: str) -> None:
        """Undo a change with all brokers there: everything is as before it."""
        result = self._rmqctl("offset", "undo", receipt_id, "--yes", "-o", "json")
        now = self._read_stored()
        is_back = all(now[place] == offset for place, offset in before.items() if place[0] in _NAMES)
        nothing_to_undo = result.exit_code == 1 and "nothing to undo" in result.stderr
        if not is_back or (result.exit_code != 0 and not nothing_to_undo):
            self.wrong.append(f"{what}; undo: exit {result.exit_code}, {before} is {now}: {result.stderr[:500]}")
        self._note_stored()


def _java(java: JavaProcess | None) -> JavaProcess:
    assert java is not None
    return java


def _receipt_items(result: Result) -> list[dict[str, Any]]:
    document = json.loads(result.stdout) if result.stdout else {"kind": ""}
    items: list[dict[str, Any]] = document["items"] if document["kind"] == "Receipt" else []
    return items


def _place(item: dict[str, Any]) -> tuple[str, int]:
    return item["brokerName"], item["queueId"]


def _items(result: Result) -> list[dict[str, Any]]:
    if not result.stdout:
        return []
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return items


@contextmanager
def random_faults(version: str, folder: Path, seed: int | None = None) -> Iterator[RandomFaults]:
    """Run a cluster for random faults; the seed is the time's unless one is given."""
    found = RandomFaults(version, folder, int(time.time()) if seed is None else seed)
    try:
        found.begin()
        yield found
    finally:
        found.close()

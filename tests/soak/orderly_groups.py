"""Orderly members of Java and ours in one group under every fault: nothing is lost, and each queue stays in order.

Each listener notes by the monotonic clock when it worked on which message. Out of that follows which queue had two
owners at once, and what was consumed again; both may only be seen where a fault explains them.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.consumer import Heard, OurConsumers, our_consumers
from tests.real.harness.process import QUICK_START, make_home
from tests.real.harness.rmqctl import Rmqctl
from tests.real.harness.traffic import Traffic
from tests.real.harness.workbench import Workbench

_QUEUES_EACH = 4
_EACH_S = 0.02
# How long a process is stopped, and the name server away.
_STOP_S, _AWAY_S = 60.0, 40.0
# Members share each 20 s at the latest.
_SHARING_S = 25.0
# Offsets are stored each 5 s.
_UNSTORED_S = 7.0
_LATE_S = 120.0


class Work(NamedTuple):
    """A listener's work on one message; `ended_s` inf: it never ended."""

    began_s: float
    ended_s: float
    queue: str
    offset: int
    who: str


class Window(NamedTuple):
    """A fault: of what was consumed in this time, or shortly before, that may be consumed again which `covers` names.

    `frozen` is the member that was stopped.
    """

    what: str
    began_s: float
    until_s: float
    covers: Callable[[Work], bool]
    frozen: str | None = None


class Seen(NamedTuple):
    """What came of a run."""

    sent_count: int
    lost: frozenset[str]
    again: Mapping[str, int]
    unexplained: list[str]

    @property
    def is_good(self) -> bool:
        """Whether all came, in order, and nothing happened without a fault that explains it."""
        return not self.lost and not self.unexplained

    def __str__(self) -> str:
        again = ", ".join(f"{count} at {what}" for what, count in sorted(self.again.items())) or "none"
        bad = "".join(f"\n  {each}" for each in self.unexplained[:20])
        return (
            f"{self.sent_count:,} sent, {len(self.lost)} lost, consumed again: {again}; "
            f"{len(self.unexplained)} unexplained{bad}"
        )


class _JavaMember:
    """One in a JVM of its own, so that it can be killed and stopped."""

    def __init__(self, cluster: Cluster, folder: Path, group: str, number: int) -> None:
        self.name = f"java-{number}"
        make_home(folder / self.name)
        self._bench = Workbench(cluster.version, folder / self.name, cluster.namesrv, jvm=QUICK_START)
        self.process = self._bench.java.process
        self._path = folder / f"{self.name}.spans"
        self._bench.consume(
            "it", group, group, orderly=1, instance=self.name, each=round(_EACH_S * 1000), spans=self._path
        )

    def works(self) -> Iterator[Work]:
        """Return what it has done."""
        for line in self._path.read_text().splitlines():
            queue, offset, began, ended = line.split("\t")
            yield Work(int(began) / 1e9, int(ended) / 1e9, queue, int(offset), self.name)

    def leave(self) -> None:
        """Shut it down."""
        self._bench.call("shutdown", id="it")
        self._bench.close()

    def kill(self) -> None:
        """End it at once (kill -9)."""
        self._bench.close()


class _OurMember:
    """One of ours."""

    def __init__(self, make: OurConsumers, group: str, number: int) -> None:
        self.name = f"ours-{number}"
        self.member = make(self.name, group, group, "--orderly", EACH_S=_EACH_S)
        self.process = self.member.process

    def works(self) -> Iterator[Work]:
        """Return what it has done, and what it did when it was killed."""
        began: dict[str, Heard] = {}
        for each in self.member.heard("BEGAN", "DONE"):
            if each.event == "BEGAN":
                began[each.queue] = each
            else:
                yield Work(began.pop(each.queue).clock_s, each.clock_s, each.queue, each.offset, self.name)
        for each in began.values():
            yield Work(each.clock_s, inf, each.queue, each.offset, self.name)

    def leave(self) -> None:
        """Have it end (SIGTERM)."""
        code = self.member.terminate(60)
        assert code in (0, 8), self.member.said

    def kill(self) -> None:
        """End it at once (kill -9)."""
        self.member.kill()


_Member = _JavaMember | _OurMember


class _Run:
    """A group, its members present and gone, and what was done to them."""

    def __init__(self, cluster: Cluster, make: OurConsumers, folder: Path, group: str) -> None:
        self.cluster, self._make, self._folder, self.group = cluster, make, folder, group
        self.all: list[_Member] = []
        self.present: list[_Member] = []
        self.windows: list[Window] = []

    def join(self, *, is_java: bool) -> None:
        number = len(self.all)
        with self.noted(f"member {number} joins", _of_java):
            made: _Member
            if is_java:
                made = _JavaMember(self.cluster, self._folder, self.group, number)
            else:
                made = _OurMember(self._make, self.group, number)
        self.all.append(made)
        self.present.append(made)

    def one(self, *, is_java: bool) -> _Member:
        """Return a member of a kind that is present."""
        return next(each for each in self.present if isinstance(each, _JavaMember) is is_java)

    @contextmanager
    def noted(self, what: str, covers: Callable[[Work], bool], *, frozen: str | None = None) -> Iterator[None]:
        """Note a fault, and the time in which members share queues after it."""
        began_s = time.monotonic()
        yield
        ended_s = time.monotonic()
        print(f"  {what}: {ended_s - began_s:.0f} s", flush=True)
        self.windows.append(Window(what, began_s, ended_s + _SHARING_S, covers, frozen))

    # Faults

    def leave(self, *, is_java: bool) -> None:
        member = self.one(is_java=is_java)
        with self.noted(f"{member.name} leaves", _of_java):
            member.leave()
            self.present.remove(member)

    def kill(self, *, is_java: bool) -> None:
        member = self.one(is_java=is_java)
        with self.noted(f"{member.name} killed", _of_java_or(member.name)):
            member.kill()
            self.present.remove(member)

    def freeze(self, *, is_java: bool) -> None:
        """Stop a member, with another one that joins meanwhile, so that its queues get another owner."""
        member = self.one(is_java=is_java)
        with self.noted(f"{member.name} stopped", _of_java_or(member.name), frozen=member.name):
            member.process.send_signal(signal.SIGSTOP)
            time.sleep(5)
            self.join(is_java=not is_java)
            time.sleep(_STOP_S + 10)
            member.process.send_signal(signal.SIGCONT)

    def restart_broker(self, name: str) -> None:
        broker = self.cluster.brokers[name]
        # It lists only some members at first, so that Java's give up queues of all brokers, and take them again.
        with self.noted(f"{name} killed and restarted", lambda work: work.queue.startswith(name) or _of_java(work)):
            broker.kill()
            time.sleep(5)
            broker.start()
            broker.wait()

    def lose_name_server(self) -> None:
        with self.noted("name server away", _of_java):
            self.cluster.name_server.kill()
            time.sleep(_AWAY_S)
            self.cluster.name_server.start().wait()


def _of_java(work: Work) -> bool:
    """Tell whether Java's had it: that gives a queue up without waiting until its offset is stored."""
    return work.who.startswith("java")


def _of_java_or(name: str) -> Callable[[Work], bool]:
    return lambda work: work.who == name or _of_java(work)


def run_orderly(cluster: Cluster, folder: Path, seconds: float) -> Seen:
    """Do everything to a group in turn, until the time is over."""
    group = "Soak-orderly"
    folder.mkdir(parents=True)
    cluster.create_topic(group, queue_count=_QUEUES_EACH)
    traffic = Traffic(cluster, group)
    with our_consumers(cluster.namesrv, folder) as ours:
        run = _Run(cluster, ours, folder, group)
        try:
            with traffic.running():
                for is_java in (False, True, False, True):
                    run.join(is_java=is_java)
                until_s = time.monotonic() + seconds
                for fault, rest_s in _faults(run):
                    if time.monotonic() > until_s:
                        break
                    fault()
                    time.sleep(rest_s)
            return _look(run, traffic)
        finally:
            for each in run.present:
                each.kill()


def _faults(run: _Run) -> Iterator[tuple[Callable[[], object], float]]:
    """Give faults without end, and how long to wait after each."""
    while True:
        for is_java in (False, True):
            yield lambda kind=is_java: run.join(is_java=kind), 20
            yield lambda kind=is_java: run.leave(is_java=kind), 15
        yield lambda: run.restart_broker("broker-b"), 20
        yield lambda: run.kill(is_java=False), 40
        yield lambda: run.join(is_java=False), 10
        yield lambda: run.freeze(is_java=False), 30
        yield run.lose_name_server, 20
        yield lambda: run.leave(is_java=True), 10
        yield lambda: run.kill(is_java=True), 40
        yield lambda: run.freeze(is_java=False), 30
        yield lambda: run.restart_broker("broker-a"), 20
        yield lambda: run.leave(is_java=False), 10
        yield lambda: run.freeze(is_java=True), 30
        yield lambda: run.leave(is_java=False), 10


def _look(run: _Run, traffic: Traffic) -> Seen:
    """Wait until the group has consumed all, and see what was consumed when, by whom."""
    rmqctl = Rmqctl(run.cluster.namesrv)

    def queues() -> list[dict[str, Any]]:
        return [item for item in rmqctl.items("offset", "show", run.group) if item["topic"] == run.group]

    wait_until(lambda: sum(item["lag"] for item in queues()) == 0, _LATE_S, why=queues)
    works = sorted(work for each in run.all for work in each.works())
    done = {(each.queue, each.offset) for each in works if each.ended_s < inf}
    stored = {(f"{item['brokerName']}:{item['queueId']}", item["maxOffset"]) for item in queues()}
    assert sum(end for _, end in stored) >= len(traffic.bodies)
    lost = frozenset(f"{queue}@{at}" for queue, end in stored for at in range(end) if (queue, at) not in done)
    again, unexplained = _judge(works, run.windows)
    return Seen(len(traffic.bodies), lost, again, unexplained)


def _judge(works: list[Work], windows: list[Window]) -> tuple[Mapping[str, int], list[str]]:
    """Return how many messages were consumed again by fault, and what no fault explains."""
    again: Counter[str] = Counter()
    unexplained: list[str] = []
    by_queue: dict[str, list[Work]] = defaultdict(list)
    for work in works:
        by_queue[work.queue].append(work)
    for queue, found in by_queue.items():
        done: dict[int, Work] = {}
        following = 0
        running: list[Work] = []
        for work in found:
            running = [each for each in running if each.ended_s > work.began_s]
            unexplained += [
                f"{queue}: two owners: {other} and {work}"
                for other in running
                if other.who != work.who and not any(_explains(window, other, work) for window in windows)
            ]
            running.append(work)
        for work in sorted(found, key=lambda each: each.ended_s):
            if work.ended_s == inf:
                continue
            if work.offset > following:
                unexplained.append(f"{queue}: {following} not consumed before {work}")
            following = max(following, work.offset + 1)
            first = done.setdefault(work.offset, work)
            if first is work:
                continue
            window = next((each for each in windows if _covers(each, first, work)), None)
            if window is None:
                unexplained.append(f"{queue}: consumed again: {first} and {work}")
            else:
                again[window.what] += 1
    return again, unexplained


def _covers(window: Window, first: Work, second: Work) -> bool:
    """Tell whether a fault explains that a message is consumed again, by another member or by the one that had it."""
    if window.frozen == second.who and window.began_s <= second.ended_s <= window.until_s:
        return True
    return window.began_s - _UNSTORED_S <= first.ended_s <= window.until_s and window.covers(first)


def _explains(window: Window, first: Work, second: Work) -> bool:
    """Tell whether two owners are one that works and one that was killed, or stopped, in its work."""
    if first.ended_s == inf:
        return window.what == f"{first.who} killed" and window.began_s - 1 <= second.began_s
    return window.frozen in (first.who, second.who) and max(first.began_s, second.began_s) <= window.until_s

"""Keep retries away from brokers that would make dead letters of them: see consumer/rules/retry_locks.py.

It asks only when a message could not be sent back by its offset in the log, and each broker at most every 5 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from rmqctl.client.core import Client
from rmqctl.consumer.reports.problems import Report
from rmqctl.consumer.rules.retry_locks import LOCK_S, MemberReport, PossibleLocker, RetryPermission, judge
from rmqctl.errors import BrokerError, RmqctlError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.group import RunningInfo
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import wait_for
from rmqctl.protocol import consumer_requests, group_bodies
from rmqctl.protocol.versions import version_ordinal
from rmqctl.rules.member_settings import consumes_orderly

from .member_reports import ASKING_S, ask_members

# Older brokers do not check locks.
_LOOKS_AT_LOCKS = version_ordinal(5, 1, 1)
_LOOK_S = 5.0


class RetryGuard:
    """Finds the brokers at which a member may hold queue locks of a group, as far as its members report.

    Members that left before this member joined are unknown, and so are locks that they did not release.
    """

    def __init__(self, client: Client, group: str, own_id: str, report: Report = lambda _, __: None) -> None:
        self._client = client
        self._group = group
        self._own_id = own_id
        self._report = report
        # By broker name: when each other member was last known to be present, and the broker's latest list of members.
        self._there_s: dict[str, dict[str, float]] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._changed_s = float("-inf")
        self._reported: dict[str, MemberReport] = {}
        self._looks: dict[str, tuple[float, RetryPermission]] = {}
        self._gate = asyncio.Lock()
        self._doubted: set[str] = set()

    def saw(self, broker_name: str, client_ids: Collection[str]) -> None:
        """Note the members that a broker lists. Members that it listed before were present until now."""
        now_s, ids = self._now_s(), frozenset(client_ids) - {self._own_id}
        before = self._listed.get(broker_name)
        # At a broker's first answer, only members that no other broker has listed are new.
        if ids != before if before is not None else not self._listed or not ids <= self._all_listed():
            self._changed_s = now_s
            self._looks.clear()
        there_s = self._there_s.get(broker_name, {})
        kept = {client_id: at_s for client_id, at_s in there_s.items() if now_s - at_s <= LOCK_S}
        self._there_s[broker_name] = kept | dict.fromkeys(ids | (before or frozenset()), now_s)
        self._listed[broker_name] = ids

    def _all_listed(self) -> frozenset[str]:
        return frozenset[str]().union(*self._listed.values())

    async def find_hindrances(self, brokers: Iterable[BrokerData]) -> dict[str, PossibleLocker]:
        """Return a member that may hold locks, by the name of each broker where one may."""
        wanted = list(brokers)
        # Failures arrive in bursts: concurrent callers wait for the same check.
        async with self._gate:
            now_s = self._now_s()
            await self._look([each for each in wanted if not self._is_fresh(each.broker_name, now_s)])
            verdicts = {each.broker_name: self._looks[each.broker_name][1] for each in wanted}
        return {name: found.hindrance for name, found in verdicts.items() if found.hindrance is not None}

    def _is_fresh(self, broker_name: str, now_s: float) -> bool:
        look = self._looks.get(broker_name)
        return look is not None and now_s - look[0] < _LOOK_S

    async def _look(self, brokers: Collection[BrokerData]) -> None:
        """Ask brokers for members, and each member once how it consumes; store a verdict on each broker."""
        listed = {
            broker: ids
            for broker, ids in zip(brokers, await asyncio.gather(*map(self._fetch_ids, brokers)), strict=True)
            if ids is not None
        }
        for broker, ids in listed.items():
            self.saw(broker.broker_name, ids)
        now_s = self._now_s()
        through: dict[str, list[str]] = {}
        for broker in listed:
            for client_id in self._listed[broker.broker_name]:
                if broker.master_address is not None and not self._is_known_harmless(client_id, now_s):
                    through.setdefault(client_id, []).append(broker.master_address)
        await self._ask_all(through)
        now_s = self._now_s()
        for broker in brokers:
            name, verdict = broker.broker_name, RetryPermission(None)
            if broker in listed:
                verdict = judge(name, self._there_s[name], self._reported, now_s=now_s, changed_s=self._changed_s)
                self._tell(verdict)
            self._looks[name] = now_s, verdict

    async def _fetch_ids(self, broker: BrokerData) -> tuple[str, ...] | None:
        """Return the members that a broker lists; None if it ignores locks or cannot be reached."""
        if broker.master_address is None:
            return None
        asking = self._client.ask(broker.master_address, consumer_requests.get_consumer_ids(self._group))
        try:
            answer = await wait_for(self._client.clock, asking, ASKING_S)
        except BrokerError:
            return ()  # it knows no member: the same restart removed its locks
        except (RmqctlError, TimeoutError):
            return None
        return None if answer.version < _LOOKS_AT_LOCKS else group_bodies.decode_consumer_ids(answer.body)

    def _is_known_harmless(self, client_id: str, now_s: float) -> bool:
        # Not for ever: another program may use a fixed name one day.
        reported = self._reported.get(client_id)
        return reported is not None and reported.is_orderly is False and now_s - reported.at_s <= LOCK_S

    async def _ask_all(self, through: Mapping[str, Sequence[str]]) -> None:
        """Ask members how they consume; `through` has the addresses of each client id's brokers."""
        reports = await ask_members(self._client, self._group, through)
        now_s = self._now_s()
        for client_id in through:
            info, before = reports.get(client_id), self._reported.get(client_id)
            self._reported[client_id] = _silent(before, now_s) if info is None else _reported(info, before, now_s)
        there = {client_id for there_s in self._there_s.values() for client_id in there_s}
        self._reported = {client_id: reported for client_id, reported in self._reported.items() if client_id in there}

    def _tell(self, verdict: RetryPermission) -> None:
        """Report each member once that does not report its kind."""
        for client_id in verdict.doubtful:
            if client_id not in self._doubted:
                self._doubted.add(client_id)
                self._report(
                    ConsumerWarning.GROUP,
                    f"{client_id} does not report whether it consumes orderly: if it does, retries that are sent as "
                    f"new messages end in %DLQ%{self._group}.",
                )

    def _now_s(self) -> float:
        return self._client.clock.monotonic_s()


def _reported(info: RunningInfo, before: MemberReport | None, now_s: float) -> MemberReport:
    # Pull clients lock nothing, and do not report this.
    is_orderly = consumes_orderly(info) or False
    held_at_s = {} if before is None else {**before.held_at_s}
    if is_orderly:
        held_at_s |= dict.fromkeys((mq.broker_name for mq in info.process_queues), now_s)
    return MemberReport(now_s, is_orderly, held_at_s)


def _silent(before: MemberReport | None, now_s: float) -> MemberReport:
    """Return the state of a member that did not answer this time; facts about an orderly one are kept."""
    if before is None:
        return MemberReport(now_s, None, silent_since_s=now_s)
    if before.is_orderly:
        return before
    since_s = before.silent_since_s if before.is_orderly is None else None
    return MemberReport(now_s, None, before.held_at_s, now_s if since_s is None else since_s)


def explain(hindrances: Iterable[tuple[str, PossibleLocker]], group: str) -> str:
    """Return why a retry is not sent as a new message."""
    found = sorted(hindrances, key=lambda each: (not each[1].is_orderly, each))
    broker_name, first = found[0]
    if first.is_orderly:
        reason = f"{first.client_id} consumes orderly in group {group}, and so it locks queues"
    else:
        reason = f"{first.client_id} may consume orderly in group {group}, and does not report it"
    return f"Not sent as a new message, because {broker_name} would make it a dead letter: {reason}."

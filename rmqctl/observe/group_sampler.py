"""Sample a group: what brokers and members report about some queues at one moment, cheap enough to repeat."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from rmqctl.admin.groups.members import (
    RELAYED_AT_ONCE,
    addresses_of,
    ask_running_info,
    ask_through,
    fetch_placed_connections,
    find_proxies,
)
from rmqctl.admin.results import Answers, ask_all
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, DeadlineError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.group import CONSUME_POP, GroupConnections, GroupState, Member, Proxies, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.sample import ClientSample, GroupSample, OwnerSample, QueueSample
from rmqctl.net.clock import pause, wait_for
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.group_state import group_state, reason_of, unseen_reason
from rmqctl.rules.group_views import consume_rt_ms
from rmqctl.rules.member_settings import consumes_orderly, is_broadcasting_group, is_only_pulled, pops_from
from rmqctl.rules.written_offsets import forgetful_members

from .pace import Pace

# How long a sample waits for a member, and how long a silent member is not asked again, as a request for it blocks a
# thread of its broker. After this many silent members a broker is not asked for more. Clients are silent while they
# pause for a pushed reset.
_MEMBER_S = 3.0
_SILENT_S = 10.0
_SILENT_AT_ONCE = 4


class _Stored(Struct, frozen=True):
    """The offsets of one queue as its broker reports them; None when it has none."""

    consumer_offset: int | None
    max_offset: int | None


_Place = tuple[str, str]  # broker name, topic
FindProxies = Callable[[Client, Iterable[BrokerData]], Awaitable[tuple[Proxies, list[Failure]]]]
_StoredAnswers = Answers[_Place, dict[MessageQueue, _Stored]]
_MemberAnswers = Answers[BrokerData, tuple[str, GroupConnections | None]]


class MembersSample(Struct, frozen=True):
    """What brokers and members report about a group's members. `running` is by client id.

    `unowned` is why no member holds a queue that none reports; `unlisted` is, by broker, why it did not list its
    members: one that holds a queue is connected to the queue's broker. `forgetful` are the members that can forget an
    offset that they were reset to. `subscribed` are the reported topics, which are all of them if `knows_topics`.
    `clients` are those that a broker lists, and how they consume.
    """

    state: GroupState
    client_ids: tuple[str, ...]
    silent_ids: tuple[str, ...]
    running: Mapping[str, RunningInfo]
    unowned: Unknown
    is_popping: bool
    is_broadcasting: bool
    forgetful: frozenset[str]
    subscribed: frozenset[str]
    knows_topics: bool
    failures: tuple[Failure, ...]
    unlisted: Mapping[str, Unknown] = {}
    clients: Mapping[str, ClientSample] = {}

    @property
    def member_count(self) -> int | None:
        """The number of members, None when it is unknown."""
        return None if self.state is GroupState.UNKNOWN else len(self.client_ids)

    def owners_of(self, mq: MessageQueue) -> tuple[OwnerSample, ...]:
        """Return the members that report holding a queue, or dropping it."""
        return tuple(
            _owner(client_id, mq, each, may_forget=client_id in self.forgetful)
            for client_id, each in sorted(self.running.items())
            if mq in each.process_queues
        )

    def is_popped(self, mq: MessageQueue) -> bool:
        """Return whether the queue is consumed by POP."""
        running = self.running.values()
        return any(pops_from(each, mq) for each in running) or (self.is_popping and not is_only_pulled(running, mq))


class GroupSampler:
    """Takes samples of one group. It remembers which members do not answer, so that not every sample waits for them.

    `brokers` are those to ask, by name: the masters of the queues for offsets, all of them for members. `pace` limits
    the rate of requests to each broker. `find_proxies` is like that of admin/groups/members.py, for readers that
    run for hours.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        brokers: Mapping[str, BrokerData],
        pace: Pace | None = None,
        find_proxies: FindProxies = find_proxies,
    ) -> None:
        self._find_proxies = find_proxies
        self._client = client
        self._group = group
        self._brokers = brokers
        self._pace = pace or Pace(client.clock, None)
        # When each silent member may be asked again.
        self._silent_until_s: dict[str, float] = {}

    async def sample(self, queues: Sequence[MessageQueue]) -> GroupSample:
        """Return what brokers and members report now; requests that fail raise nothing, they are in `failures`.

        Sends one GET_CONSUME_STATS per topic and broker, one GET_CONSUMER_CONNECTION_LIST per broker, and then one
        GET_CONSUMER_RUNNING_INFO per member.

        On 5.x, while a reset is pending (no pull has adopted it yet), the reported offset is the target, whatever the
        members do. The pull that adopts it can overwrite it with the member's old offset, until the member commits the
        target (0.1 s later; 10 s for clients before 5.2). So an offset alone proves nothing.
        """
        at_ms, monotonic_s = self._client.clock.now_ms(), self._client.clock.monotonic_s()
        places = sorted({(mq.broker_name, mq.topic) for mq in queues})
        stored, connected = await asyncio.gather(
            ask_all(places, lambda place: self._ask_offsets(*place, queues)), self._ask_connections()
        )
        members = await self._sample_members(connected, with_queues=True)
        unread = [Failure(name, f"offsets of {topic}", error) for (name, topic), error in stored.failed.items()]
        return GroupSample(
            at_ms=at_ms,
            monotonic_s=monotonic_s,
            group=self._group,
            state=members.state,
            client_ids=members.client_ids,
            queues={mq: _queue_sample(mq, stored, members) for mq in queues},
            silent_ids=members.silent_ids,
            failures=(*unread, *members.failures),
            clients=members.clients,
        )

    async def sample_members(self, *, with_queues: bool) -> MembersSample:
        """Return what brokers report now about the members, and members about their queues; raises nothing.

        Sends one GET_CONSUMER_CONNECTION_LIST per broker, and `with_queues` one GET_CONSUMER_RUNNING_INFO per member.
        """
        return await self._sample_members(await self._ask_connections(), with_queues=with_queues)

    async def _sample_members(self, connected: _MemberAnswers, *, with_queues: bool) -> MembersSample:
        through = addresses_of(connected.ok.values())
        reported = await self._ask_members(through) if with_queues else Answers[str, RunningInfo]({}, {})
        proxies, failures = Proxies.ABSENT, _failures(connected, reported)
        if not through:
            proxies, proxy_failures = await self._find_proxies(self._client, connected.ok)
            failures += proxy_failures
        unseen = unseen_reason(connected.failed.values(), proxies)
        silent_ids = tuple(sorted(set(through) - set(reported.ok))) if with_queues else ()
        unowned = Unknown.CLIENT_SILENT if silent_ids else Unknown.NOT_ASSIGNED
        if not through:
            unowned = unseen or Unknown.NO_MEMBERS
        elif not with_queues:
            unowned = Unknown.NOT_REPORTED
        found = [connections for _, connections in connected.ok.values() if connections is not None]
        subscribed = {topic for connections in found for topic in connections.subscriptions}
        subscribed.update(item.topic for info in reported.ok.values() for item in info.subscriptions)
        return MembersSample(
            state=group_state(unseen, has_members=bool(through)),
            client_ids=tuple(sorted(through)),
            silent_ids=silent_ids,
            running=reported.ok,
            unowned=unowned,
            is_popping=any(each.consume_type == CONSUME_POP for each in found),
            is_broadcasting=is_broadcasting_group(reported.ok.values(), (each.message_model for each in found)),
            forgetful=forgetful_members(found),
            subscribed=frozenset(subscribed),
            knows_topics=bool(through) and unseen is None and len(reported.ok) == len(through),
            failures=tuple(failures),
            unlisted={broker.broker_name: reason_of([error]) for broker, error in connected.failed.items()},
            clients={
                member.client_id: _client(member, reported.ok.get(member.client_id))
                for connections in found
                for member in connections.members
            },
        )

    async def _ask_connections(self) -> _MemberAnswers:
        async def ask(broker: BrokerData) -> tuple[str, GroupConnections | None]:
            if broker.addresses:
                await self._pace.turn(broker.broker_name)
            return await fetch_placed_connections(self._client, broker, self._group)

        return await ask_all(self._brokers.values(), ask)

    async def _ask_offsets(
        self, broker_name: str, topic: str, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, _Stored]:
        """Return the offsets of one topic's queues at their master: a slave's copy can be 10 s old."""
        broker = self._brokers.get(broker_name)
        if broker is None:
            raise UnreachableError(broker_name, "no master is registered")
        address = self._client.require_master(broker)
        answer = await self._client.ask(address, headers.get_consume_stats(self._group, topic))
        rows = bodies.decode_consume_stats(answer.body).queues

        async def read(mq: MessageQueue) -> _Stored:
            row = rows.get(mq)
            if row is not None:
                return _Stored(row.consumer_offset, row.broker_offset)
            # Omitted from the answer: a topic without subscribers (now), or a queue beyond the readable ones.
            return _Stored(await self._ask_offset(address, mq), None)

        wanted = [mq for mq in queues if (mq.broker_name, mq.topic) == (broker_name, topic)]
        return dict(zip(wanted, await asyncio.gather(*map(read, wanted)), strict=True))

    async def _ask_offset(self, address: str, mq: MessageQueue) -> int | None:
        request = headers.query_consumer_offset(self._group, mq.topic, mq.queue_id)
        answer = await self._client.ask(address, request, accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))
        return headers.int_field(answer, "offset") if answer.code == ResponseCode.SUCCESS else None

    async def _ask_members(self, through: Mapping[str, Sequence[str]]) -> Answers[str, RunningInfo]:
        """Ask members through the brokers that they are connected to, except those that were silent a moment ago."""
        now_s = self._client.clock.monotonic_s()
        gates = {address: asyncio.Semaphore(RELAYED_AT_ONCE) for each in through.values() for address in each}
        silent_counts = Counter[str]()

        async def ask(client_id: str, address: str) -> RunningInfo:
            async with gates[address]:
                if silent_counts[address] >= _SILENT_AT_ONCE:
                    raise UnreachableError(client_id, f"not asked, after {_SILENT_AT_ONCE} silent members on {address}")
                try:
                    return await self._ask_member(client_id, address)
                except RmqctlError as error:
                    silent_counts[address] += _is_silence(error)
                    raise

        asked = [client_id for client_id in through if self._silent_until_s.get(client_id, now_s) <= now_s]
        answers = await ask_all(asked, lambda client_id: ask_through(through[client_id], partial(ask, client_id)))
        silent_until_s = self._client.clock.monotonic_s() + _SILENT_S
        self._silent_until_s |= {
            client_id: silent_until_s for client_id, error in answers.failed.items() if _is_silence(error)
        }
        return answers

    async def _ask_member(self, client_id: str, address: str) -> RunningInfo:
        await self._pace.turn(
            next((name for name, each in self._brokers.items() if address in each.read_addresses), address)
        )
        asking = ask_running_info(self._client, address, self._group, client_id)
        try:
            return await wait_for(self._client.clock, asking, _MEMBER_S)
        except TimeoutError:
            raise DeadlineError(client_id, _MEMBER_S) from None


async def sample_group(
    client: Client, group: str, queues: Sequence[MessageQueue], brokers: Mapping[str, BrokerData]
) -> GroupSample:
    """Return one sample; see GroupSampler.sample()."""
    return await GroupSampler(client, group, brokers).sample(queues)


async def sample_every(
    client: Client,
    group: str,
    queues: Sequence[MessageQueue],
    brokers: Mapping[str, BrokerData],
    *,
    interval_s: float,
) -> AsyncGenerator[GroupSample]:
    """Yield a sample every interval_s until the client's deadline; after a slow one, the next starts immediately."""
    sampler = GroupSampler(client, group, brokers)
    while client.deadline.remaining_s() > 0:
        next_s = client.clock.monotonic_s() + interval_s
        yield await sampler.sample(queues)
        await pause(client.clock, min(max(0.0, next_s - client.clock.monotonic_s()), client.deadline.remaining_s()))


def _failures(connected: _MemberAnswers, reported: Answers[str, RunningInfo]) -> list[Failure]:
    return [
        *(Failure(broker.broker_name, "members", error) for broker, error in connected.failed.items()),
        *(Failure(None, f"running info of {client_id}", error) for client_id, error in reported.failed.items()),
    ]


def _is_silence(error: RmqctlError) -> bool:
    """Return whether a member was asked and did not answer, as opposed to one that left or was never asked."""
    if isinstance(error, BrokerError):
        return error.code == ResponseCode.CONSUME_MSG_TIMEOUT
    return isinstance(error, DeadlineError)


def _queue_sample(mq: MessageQueue, stored: _StoredAnswers, members: MembersSample) -> QueueSample:
    place = mq.broker_name, mq.topic
    found = stored.ok[place][mq] if place in stored.ok else _Stored(None, None)
    reasons: dict[str, Unknown] = {}
    for name, value, absent in (
        ("consumerOffset", found.consumer_offset, Unknown.NEVER_COMMITTED),
        ("maxOffset", found.max_offset, Unknown.NOT_REPORTED),
    ):
        if value is None:
            reasons[name] = reason_of([stored.failed[place]]) if place in stored.failed else absent
    owners = members.owners_of(mq)
    if not owners:
        reasons["clientId"] = members.unlisted.get(mq.broker_name, members.unowned)
    return QueueSample(
        mq=mq,
        consumer_offset=found.consumer_offset,
        max_offset=found.max_offset,
        owners=owners,
        is_popped=members.is_popped(mq),
        reasons=reasons,
    )


def _client(member: Member, info: RunningInfo | None) -> ClientSample:
    if info is None:
        return ClientSample(member.language, member.version)
    return ClientSample(member.language, member.version, consumes_orderly(info), consume_rt_ms(info))


def _owner(client_id: str, mq: MessageQueue, info: RunningInfo, *, may_forget: bool) -> OwnerSample:
    held = info.process_queues[mq]
    # An orderly consumer renews its locks every 20 s, so its lock time is not when it got the queue.
    is_concurrent = consumes_orderly(info) is False
    return OwnerSample(
        client_id=client_id,
        commit_offset=held.position,
        cached_count=held.cached_count,
        cached_min_offset=held.cached_min_offset,
        is_dropped=held.dropped,
        begun_at_ms=held.locked_at_ms if is_concurrent else None,
        consumed_at_ms=held.last_consume_at_ms,
        may_forget=may_forget,
        is_listening=held.is_listening,
    )

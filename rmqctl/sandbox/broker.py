"""One broker: its tables, its store and its timers."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.model.queue import MessageQueue
from rmqctl.net.address import format_address
from rmqctl.net.clock import Clock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import CommandFlag, Permission
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.record import Host
from rmqctl.sandbox.delivery.delays import Delays, due_times
from rmqctl.sandbox.delivery.held_requests import HeldRequests
from rmqctl.sandbox.delivery.timers import Timers
from rmqctl.sandbox.faults.faults import Faults
from rmqctl.sandbox.faults.partitions import Trait, trait_of
from rmqctl.sandbox.groups.locks import QueueLocks
from rmqctl.sandbox.groups.members import BROADCASTING, ConsumerGroup, ConsumerTable, ProducerTable
from rmqctl.sandbox.groups.offsets import OffsetTable
from rmqctl.sandbox.groups.request_modes import RequestModes
from rmqctl.sandbox.groups.table import GroupTable
from rmqctl.sandbox.pop.check_points import CheckPoint
from rmqctl.sandbox.pop.revival import revive
from rmqctl.sandbox.pop.state import PopState
from rmqctl.sandbox.storage.state import StateStore
from rmqctl.sandbox.storage.store import MessageStore, NewMessage, PutMessageResult
from rmqctl.sandbox.storage.stored_text import check_topic_length, write_texts
from rmqctl.sandbox.topics.table import SCHEDULE_TOPIC, TIMER_TOPIC, TopicTable
from rmqctl.sandbox.transactions.checks import HalfChecks, question
from rmqctl.sandbox.transactions.half_messages import PRODUCER_GROUP, HalfMessages

from .channel import Channel, host_of
from .daily_totals import DailyTotals
from .name_server import MASTER_ID, NameServer, Registration
from .periodic import Periodic
from .profile import Profile
from .request import FailureError, RefusalError
from .server import Handler, Server
from .settings import broker_settings
from .stats import SAMPLE_S, Stats

logger = logging.getLogger("rmqctl.sandbox")

_MEMBER_SCAN_S = 10.0
_CLEAN_S = 10.0
_HOUR_MS = 3_600_000


class Broker:
    """A master broker. State that survives a restart is built once; the rest is rebuilt at each restart.

    `skew_ms` is the offset of its clock; `now_ms()` reads that clock. Timers run on the sandbox's clock.
    """

    def __init__(
        self, name: str, *, cluster: str, profile: Profile, clock: Clock, faults: Faults, name_server: NameServer,
        store: MessageStore, state: StateStore, settings: Mapping[str, str], handlers: Mapping[int, Handler],
    ) -> None:  # fmt: skip
        self.name = name
        self.cluster = cluster
        self.profile = profile
        self.clock = clock
        self.faults = faults
        self._skew_ms = 0
        self.store = store
        self.state = state
        self.is_running = False
        # One stop or start at a time: two concurrent restarts would leave a port open.
        self._changing = asyncio.Lock()
        self.settings = broker_settings(profile, settings, self.now_ms)
        self.store.transfer_limits = self.settings.transfer_limits
        self._name_server = name_server
        self._handlers = handlers
        self._host, self._port = "", 0
        self.store.recover(due_times(self.settings.text("messageDelayLevel")))
        self._load()
        self._open()

    def _load(self) -> None:
        """Load the tables that survive a restart."""
        profile, state = self.profile, self.state
        self.topics = TopicTable(profile, self.cluster, self.name, self.now_ms, state, self.settings)
        self.groups = GroupTable(profile, self.now_ms, state, self.settings)
        self.offsets = OffsetTable(self.now_ms, state)

    def _open(self) -> None:
        """Build what does not survive a restart."""
        clock = self.clock
        self.consumers = ConsumerTable(clock.monotonic_s, self.profile)
        self.consumers.on_change = self._notify_members
        self.producers = ProducerTable(clock.monotonic_s)
        self.locks = QueueLocks(clock.monotonic_s)
        self.holds = HeldRequests(clock)
        self.stats = Stats(clock.monotonic_s)
        self.daily_totals = DailyTotals(self.now_ms)
        levels = self.settings.text("messageDelayLevel")
        self.delays = Delays(clock, self.now_ms, self.store, self.state, levels, self.deliver)
        self.timers = Timers(clock, self.now_ms, self.store, self.state, self.settings, self.deliver)
        self.pop = PopState(clock, self.now_ms, self.settings, self.state, self.holds, self._revive)
        self.halves = HalfMessages(
            clock, self.now_ms, self.settings, self.put, lambda: self.store_host, is_5=self.profile.is_5
        )
        self._half_checks = HalfChecks(
            self.now_ms, self.settings, self.store, self.offsets, self._put_half, self._ask_producer,
            is_5=self.profile.is_5,
        )  # fmt: skip
        self.request_modes = RequestModes(self.state)
        self.server = Server(self.name, self, clock, self.profile.version, self._handlers, self.faults)
        self.server.on_close = self.forget
        self.faults.watch(self.name, self.server.review, self._traits_of)
        self.booted_at_ms = self.now_ms()
        self._periodic: list[Periodic] = []

    async def start(self, host: str, port: int) -> None:
        """Listen, register with the name server and start the timers. Raises UnreachableError."""
        await self.server.open(host, port)
        self._host, self._port = self.server.host_and_port
        self.store_host: Host = host_of(self.address)
        self.is_running = True
        self.settings.update({
            "brokerIP1": self._host, "listenPort": str(self._port), "namesrvAddr": self._name_server.address,
        })  # fmt: skip
        self.topics.on_change = self.register
        self.register()
        self.delays.start()
        self.timers.start()
        if self.profile.is_5:
            self.pop.start()
        self._periodic = [
            Periodic(self.clock, _MEMBER_SCAN_S, self._close_expired),
            Periodic(self.clock, _CLEAN_S, lambda: self._try(self.clean, "old messages are kept for now")),
            Periodic(
                self.clock, self._seconds("transactionCheckInterval"),
                lambda: self._try(self._half_checks.run, "half messages are checked later"),
            ),
            Periodic(self.clock, self._seconds("registerNameServerPeriod")(), self.register),
            Periodic(self.clock, SAMPLE_S, self.stats.sample),
            Periodic(self.clock, SAMPLE_S, lambda: self.daily_totals.note(self.stats, self.cluster)),
            Periodic(self.clock, self._seconds("flushIntervalCommitLog"), self.store.flush_behind),
            Periodic(self.clock, self._seconds("flushConsumerOffsetInterval")(), self.state.flush_behind),
        ]  # fmt: skip

    def _seconds(self, name: str) -> Callable[[], float]:
        return lambda: self.settings.number(name) / 1000

    async def stop(self) -> None:
        """Stop the broker: close the connections of clients and unregister from the name server."""
        async with self._changing:
            await self._stop()
            self.store.flush_behind()

    async def _stop(self) -> None:
        if not self.is_running:
            return
        self.is_running = False
        stops = [periodic.stop for periodic in self._periodic]
        for stop in (*stops, self.delays.stop, self.timers.stop, self.halves.stop, self.pop.stop):
            stop()
        self.holds.close()
        self.topics.on_change = lambda _: None
        self._name_server.unregister(self.cluster, self.address)
        await self.server.aclose()

    async def restart(self, *, lose_unflushed: bool = False) -> None:
        """Stop and start on the same port; with `lose_unflushed`, as after a power cut."""
        async with self._changing:
            await self._stop()
            if lose_unflushed:
                self.state.lose_unflushed()
                self.store.lose_unflushed(due_times(self.settings.text("messageDelayLevel")))
                self._load()
            else:
                self.store.flush()
                self.state.flush()
            await self._resume()

    async def resume(self) -> None:
        """Start again after stop(), on the same port; do nothing when the broker is running."""
        async with self._changing:
            if not self.is_running:
                # A clean stop flushes everything: a later power cut loses nothing of it.
                self.store.flush()
                self.state.flush()
                await self._resume()

    async def _resume(self) -> None:
        self.offsets.forget_memory()
        self._open()
        await self.start(self._host, self._port)

    @property
    def name_server(self) -> NameServer:
        """The name server where the broker registers and finds other brokers."""
        return self._name_server

    @property
    def address(self) -> str:
        """The address for clients, as host:port."""
        return format_address(self._host, self._port)

    @property
    def store_host_text(self) -> str:
        """The broker's host as remarks name it (brokerIP1)."""
        return self._host

    def now_ms(self) -> int:
        """Return the time of the broker's clock, epoch ms; it may be skewed."""
        return self.clock.now_ms() + self.skew_ms

    @property
    def skew_ms(self) -> int:
        """The offset of the broker's clock; positive when it is ahead."""
        return self._skew_ms

    @skew_ms.setter
    def skew_ms(self, skew_ms: int) -> None:
        self._skew_ms = skew_ms
        if self.is_running:
            self.delays.rearm()
            self.timers.rearm()
            self.pop.revival.rearm()

    @property
    def permission(self) -> int:
        """The permission bits of the whole broker (brokerPermission)."""
        return self.settings.number("brokerPermission")

    def refuse_writes(self, refused: bool = True) -> None:
        """Revoke or grant the broker's write permission (brokerPermission); the registered routes follow."""
        read = Permission.READ
        self.settings.update({"brokerPermission": str(read if refused else read | Permission.WRITE)})
        self.permission_changed()

    def permission_changed(self) -> None:
        """Register the changed permission with the name server immediately."""
        self.topics.version.next()
        self.register()

    def register(self, only: str | None = None) -> None:
        """Register one topic or all topics with the name server, with no more permission than the broker has."""
        if not self.is_running:
            return
        allowed = self.permission
        listed = self.topics.topics if only is None else {only: self.topics.topics[only]}
        topics = {
            name: topic if allowed & 6 == 6 else replace(topic, perm=topic.perm & allowed)
            for name, topic in listed.items()
        }
        version = self.topics.version.to_wire(self.profile)
        self._name_server.register(Registration(self.cluster, self.name, MASTER_ID, self.address, topics, version))

    def put(self, message: NewMessage) -> PutMessageResult:
        """Store a message, in a delay queue if it is delayed, and wake the requests that wait for it.

        Raises RefusalError for a message that cannot be written, FailureError for an invalid delay level.
        """
        check_topic_length(message.topic, self.profile, self.settings.number("maxMessageSize"))
        if self.profile.is_5:
            self.timers.divert(message)
        return self._put([message], self.delays.divert(message))[0]

    def put_all(self, messages: Sequence[NewMessage]) -> list[PutMessageResult]:
        """Store a batch of undelayed messages of one queue, all or none. Raises as put() does."""
        return self._put(messages, None)

    def deliver(self, message: NewMessage) -> PutMessageResult:
        """Store a message whose delay is over. Raises as put() does."""
        return self._put([message], None)[0]

    def _put(self, messages: Sequence[NewMessage], due_ms: int | None) -> list[PutMessageResult]:
        placed = self._store(messages, due_ms)
        if self.settings.text("flushDiskType") == "SYNC_FLUSH":
            try:
                self.store.flush()
            except OSError as error:
                # It is stored and will be read: after a refusal, a second attempt would store a duplicate.
                logger.warning("%s: stored messages may not survive a power cut: %s", self.name, error.strerror)
                return [replace(place, is_flushed=False) for place in placed]
        return placed

    def _store(self, messages: Sequence[NewMessage], due_ms: int | None) -> list[PutMessageResult]:
        topic, queue_id, store = messages[0].topic, messages[0].queue_id, self.store
        write_texts(messages, self.profile, self.settings.number("maxMessageSize"))
        try:
            placed = store.put_all(messages, now_ms=self.now_ms(), store_host=self.store_host, tags_code=due_ms)
        except struct.error as error:
            raise FailureError(f"java.lang.NumberFormatException: {error}") from None
        except OSError as error:
            raise self._refuse_unwritten(error) from None
        self.stats.add("TOPIC_PUT_NUMS", topic, len(placed))
        self.stats.add("TOPIC_PUT_SIZE", topic, sum(place.size_bytes for place in placed))
        self.stats.add("BROKER_PUT_NUMS", self.cluster, len(placed), 0)
        if topic == SCHEDULE_TOPIC:
            self.delays.stored(queue_id)
        elif topic == TIMER_TOPIC and self.profile.is_5:
            self.timers.stored(placed[0].queue_offset, messages)
        codes = store.queue(topic, queue_id).tags_codes[-len(placed) :]
        for message, code in zip(messages, codes, strict=True):
            self.holds.arrived(topic, queue_id, code, message.properties)
        return placed

    def _refuse_unwritten(self, error: OSError) -> RefusalError:
        """Return the error for a disk that rejects writes (PutMessageStatus.SERVICE_NOT_AVAILABLE)."""
        logger.warning("%s: a message was refused: %s", self.name, error.strerror)
        return RefusalError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
            f"[{error.strerror}], messages are put to the slave, message store has been shut down, etc.",
        )

    def _revive(self, point: CheckPoint) -> list[int]:
        return revive(
            point, store=self.store, topics=self.topics, groups=self.groups, offsets=self.offsets,
            settings=self.settings, put=self.put, store_host=self.store_host,
        )  # fmt: skip

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """Return one of this broker's queues by its full name."""
        return MessageQueue(topic, self.name, queue_id)

    def forget(self, channel: Channel) -> None:
        """Remove a closed connection from all groups and end the waits of its requests."""
        self.holds.end_owner(channel)
        self.consumers.forget(channel)
        self.producers.forget(channel)

    def _notify_members(self, group: ConsumerGroup, by_close: bool) -> None:
        """Push NOTIFY_CONSUMER_IDS_CHANGED to all members (DefaultConsumerIdsChangeListener).

        When a connection broke, the group's own setting is not checked. 4.9 notifies broadcasting groups as well.
        """
        config = None if by_close else self.groups.find(group.name)
        if config is not None and not config.get("notifyConsumerIdsChangedEnable", True):
            return
        if not self.settings.flag("notifyConsumerIdsChangedEnable"):
            return
        if self.profile.is_5 and group.message_model == BROADCASTING:
            return
        push = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group.name}, flag=CommandFlag.ONEWAY)
        for channel in group.members:
            channel.push(push)

    def _traits_of(self, client_id: str) -> set[Trait]:
        """Return the traits of a client: its groups, with host, language and version of its connections."""
        consumers = {name: group.members for name, group in self.consumers.groups.items()}
        return {
            trait_of(name, channel.host, member.language, member.version)
            for members_by_group in (consumers, self.producers.groups)
            for name, members in members_by_group.items()
            for channel, member in members.items()
            if member.client_id == client_id
        }

    def keep_alive(self, seconds: float) -> None:
        """Treat a jump of the clock as time in which members that are not cut off sent heartbeats."""
        self.server.keep_alive(seconds)
        members = [item for group in self.consumers.groups.values() for item in group.members.items()]
        members += [item for group in self.producers.groups.values() for item in group.items()]
        for channel, member in members:
            if not channel.is_cut:
                member.heard_at_s += seconds
                member.heard_at_ms += round(seconds * 1000)
        self.locks.keep_alive({member.client_id for channel, member in members if not channel.is_cut}, seconds)

    def _close_expired(self) -> None:
        for channel in {*self.consumers.take_expired(), *self.producers.take_expired()}:
            self.server.give_up(channel)
        self.consumers.drop_expired_pulls()
        self.locks.drop_expired()

    def clean(self) -> None:
        """Delete messages that are older than the retention time (fileReservedTime)."""
        self.store.drop_stored_before(self.now_ms() - self.settings.number("fileReservedTime") * _HOUR_MS)

    def _try(self, work: Callable[[], object], otherwise: str) -> None:
        """Do periodic work that a full disk may prevent."""
        try:
            work()
        except (RefusalError, OSError) as error:
            logger.warning("%s: %s: %s", self.name, otherwise, error)

    def _put_half(self, message: NewMessage) -> PutMessageResult:
        """Store a half message that is checked or given up."""
        self.topics.create_for_group(message.topic, 1)
        return self.put(message)

    def _ask_producer(self, half: StoredMessage, properties: Mapping[str, str], place: PutMessageResult) -> None:
        channel = self.producers.choose(properties.get(PRODUCER_GROUP, ""))
        if channel is not None:
            channel.push(question(half, properties, place, self.name, is_5=self.profile.is_5))

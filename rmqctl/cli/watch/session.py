"""One run of rmqctl watch: shows the rounds, and owns the recording, the metrics and the notifiers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from rmqctl.admin.groups.names import require_group
from rmqctl.cli.output.activity_line import ActivityLine
from rmqctl.cli.output.row_stream import RowStream
from rmqctl.cli.output.text import note_to_stderr, printable, to_stderr
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.observe.fleet_sampler import FIRST_LOOK_S, FleetSampler
from rmqctl.rules.health import Health, HealthSettings
from rmqctl.text.durations import exact_duration, short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import is_pattern, matching
from rmqctl.watch.health import HealthWindow, worst_first
from rmqctl.watch.incidents import Incidents
from rmqctl.watch.items import health_item
from rmqctl.watch.rounds import Watch, WatchRound, round_summary

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.watch.metrics import Exporter
    from rmqctl.watch.outbox import Outbox
    from rmqctl.watch.recorder import Recorder

# With more groups, those that are OK at first are only counted.
_FEW_GROUPS = 20
_DELIVER_S = 30.0
# A round is late after this many times --every.
_LATE_ROUND = 1.5


class WatchSettings(Struct, frozen=True, kw_only=True):
    """The options of rmqctl watch; see its help. `worst_first` is the order of groups, else by name."""

    groups: tuple[str, ...]
    every_s: float
    window_ms: int
    lag_allowance: int
    rate_per_s: float
    for_s: float | None = None
    round_count: int | None = None
    shows_each_round: bool = False
    worst_first: bool = False
    notify_at: Health = Health.WARN
    quiet_ms: int = 0
    repeat_ms: int | None = None

    def require_window(self) -> None:
        """Raise UsageError for a window in which no verdict would be possible."""
        least_ms = least_window_ms(self.every_s)
        if self.window_ms < least_ms:
            raise UsageError(
                f"--window must be at least {short_duration(least_ms)} with this --every.",
                hint="A verdict requires three samples that cover 30 s.",
            )

    def sampler(self, client: Client, *, first_look_s: float = FIRST_LOOK_S) -> FleetSampler:
        """Return what reads the groups."""
        return FleetSampler(
            client, self.groups, every_s=self.every_s, rate_per_s=self.rate_per_s, first_look_s=first_look_s
        )

    def window(self) -> HealthWindow:
        """Return what judges them."""
        return HealthWindow(self.window_ms, HealthSettings(lag_allowance=self.lag_allowance))


def least_window_ms(every_s: float) -> int:
    """Return the shortest window in which a verdict is possible, in ms: samples may be late by a round."""
    every_ms, least = round(every_s * 1000), HealthSettings()
    return max(least.least_count * every_ms, least.least_span_ms) + every_ms


class Session:
    """Runs the watch. `is_complete` is whether everything was read and recorded in every round."""

    def __init__(self, settings: WatchSettings, stream: RowStream, *, with_notes: bool) -> None:
        self._settings, self._stream, self._with_notes = settings, stream, with_notes
        self._recorder: Recorder | None = None
        self._exporter: Exporter | None = None
        self._outbox: Outbox | None = None
        self._failed: dict[tuple[str | None, str], Failure] = {}
        self._round_ms: int | None = None
        self._is_late = False
        self.is_complete = True

    def open(
        self, record: str | None, most_bytes: int, keep_count: int, *, metrics: str | None, notify: Sequence[str],
        plugins: Sequence[str], name_servers: str,
    ) -> None:  # fmt: skip
        """Open the recording, the metrics and the notifiers. Raises UsageError before anything is asked."""
        if metrics is not None:
            from rmqctl.watch.metrics import Exporter

            self._exporter = Exporter(*_address(metrics))
        if record is not None:
            from rmqctl.watch.recorder import Recorder

            self._recorder = Recorder(record, most_bytes=most_bytes, keep_count=keep_count)
        if notify:
            from rmqctl.net.address import parse_name_servers
            from rmqctl.plugin.loader import notifiers
            from rmqctl.watch.incident_store import open_store
            from rmqctl.watch.notifiers import parse_target
            from rmqctl.watch.outbox import Outbox

            known = notifiers(plugins)
            targets = [parse_target(text, known) for text in notify]
            addresses = [name_servers] if "://" in name_servers else parse_name_servers(name_servers)
            store = open_store(addresses, self._settings.groups, self._settings.notify_at, _report)
            self._outbox = Outbox(targets, store, _report)

    def close(self) -> bool:
        """Close everything; return whether all alerts were delivered."""
        if self._exporter is not None:
            self._exporter.close()
        if self._recorder is not None:
            self._recorder.close()
        return self._outbox is None or self._outbox.close(_DELIVER_S)

    async def run(self, client: Client) -> None:
        """Watch until --for or --rounds ends it. Raises NotFoundError for a group that does not exist."""
        settings, clock = self._settings, client.clock
        sampler, window = settings.sampler(client), settings.window()
        if self._recorder is not None:
            now_ms = clock.now_ms()
            for recorded in self._recorder.recent(now_ms - settings.window_ms):
                if recorded.sample.at_ms < now_ms and sampler.is_wanted(recorded.sample.group):
                    window.add(recorded)
        outbox = self._outbox
        incidents = Incidents(
            settings.notify_at,
            settings.quiet_ms,
            repeat_ms=settings.repeat_ms,
            stored=() if outbox is None else outbox.incidents,
        )
        watch = Watch(
            sampler,
            window,
            incidents,
            clock=clock,
            every_s=settings.every_s,
            recorder=self._recorder,
            exporter=self._exporter,
            send=lambda document: None if outbox is None else outbox.send(incidents.open, document),
            failed_alert_count=lambda: 0 if outbox is None else outbox.failed_count,
            waiting_alert_count=lambda: 0 if outbox is None else outbox.waiting_count,
        )
        with _ending_at_sigterm():
            await self._show_rounds(client, watch, incidents)

    async def _show_rounds(self, client: Client, watch: Watch, incidents: Incidents) -> None:
        settings, is_first = self._settings, True
        async with aclosing(watch.rounds(for_s=settings.for_s, most=settings.round_count)) as rounds:
            with ExitStack() as status:
                status.enter_context(ActivityLine("Reading all groups", is_wanted=self._with_notes))
                async for found in rounds:
                    status.close()
                    if self._outbox is not None:
                        self._outbox.save(incidents.open)
                    if is_first:
                        for note in await missing_groups(client, settings.groups, found):
                            self._note(note)
                    self._show(found, is_first=is_first)
                    is_first = False
                    status.enter_context(
                        ActivityLine(f"{round_summary(found)}. Waiting for the next round", is_wanted=self._with_notes)
                    )

    def _show(self, found: WatchRound, *, is_first: bool) -> None:
        self._note_failures(found)
        self._note_lateness(found.at_ms)
        shown = found.groups if self._settings.shows_each_round else found.changes
        if not self._settings.shows_each_round and len(found.groups) > _FEW_GROUPS:
            shown = [group for group in shown if group.health is not Health.OK or group.key in found.befores]
        if self._settings.worst_first:
            shown = sorted(shown, key=worst_first)
        self._stream.write([health_item(group, found.befores.get(group.key)) for group in shown])
        if is_first and not self._settings.shows_each_round:
            self._note(f"{round_summary(found)}. A line appears when the health of a group changes.")

    def _note_failures(self, found: WatchRound) -> None:
        """Report on stderr what could not be read, when that changes."""
        now = {(failure.broker_name, failure.what): failure for failure in found.failures}
        self.is_complete = self.is_complete and not now
        at = f"{str(iso_time(found.at_ms))[11:19]}Z"
        for (broker_name, what), failure in now.items():
            if (broker_name, what) not in self._failed:
                sentence = failure.error.sentence
                where = f"{broker_name}: " if broker_name and not sentence.startswith(f"{broker_name}:") else ""
                self._note(f"{at} {where}{what}: {sentence}")
        failing = {broker_name for broker_name, _ in now}
        for broker_name in dict.fromkeys(broker_name for broker_name, _ in self._failed):
            if broker_name not in failing:
                self._note(f"{at} {broker_name or 'The rest'}: read again.")
        self._failed = now

    def _note_lateness(self, at_ms: int) -> None:
        """Report once that rounds take longer than they should: what is shorter than a round is not seen."""
        before_ms, self._round_ms = self._round_ms, at_ms
        if before_ms is not None and not self._is_late:
            words = lateness(at_ms - before_ms, self._settings.every_s, self._settings.rate_per_s)
            self._is_late = words is not None
            if words is not None:
                self._note(words)

    def _note(self, words: str) -> None:
        if self._with_notes:
            note_to_stderr(printable(words))


def _report(words: str) -> None:
    to_stderr(printable(f"rmqctl: {words}"))


def lateness(pause_ms: int, every_s: float, rate_per_s: float) -> str | None:
    """Return a sentence on a round that began this long after the one before, None if it was in time."""
    if pause_ms < _LATE_ROUND * every_s * 1000:
        return None
    every, pause = (exact_duration(round(each_ms / 100) * 100) for each_ms in (every_s * 1000, pause_ms))
    limit = f"at most {rate_per_s:g} requests per second are sent to each broker (--rate)"
    return f"A round began {pause} after the one before, not {every} (--every): {limit}."


async def missing_groups(client: Client, wanted: Sequence[str], found: WatchRound) -> list[str]:
    """Return a sentence for each name and pattern without a group yet; raise NotFoundError for an unknown group."""
    names = {group.key.group for group in found.groups}
    notes = []
    for each in wanted:
        if matching([each], names):
            continue
        if is_pattern(each):
            notes.append(f"No group matches {each} yet.")
        else:
            brokers = {broker.broker_name: broker for broker in (await client.fresh_cluster()).brokers}
            await require_group(client, each, brokers, {})
            notes.append(f"Group {each} has no offsets yet.")
    return notes


@contextmanager
def _ending_at_sigterm() -> Iterator[None]:
    """End the body without an error when a service manager stops the process."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = task is not None and task.cancel()

    with suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if not is_stopped:
            raise
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGTERM)


def _address(text: str) -> tuple[str, int]:
    from rmqctl.net.address import parse_address

    host, port = parse_address(text)
    if not host:
        raise UsageError("--metrics requires HOST:PORT.", hint="For this machine only: 127.0.0.1:9464.")
    return host, port

"""Delivers notifications until each target has them: oldest first, one after the other, a thread per target."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event, Thread

from rmqctl.errors import RmqctlError
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

from .incident_store import MOST_WAITING, Document, IncidentStore
from .incidents import OpenIncident
from .notifiers import NotifyTarget

_PAUSES_S = (1.0, 5.0, 20.0, 60.0)


class Outbox:
    """Sends each notification to all targets, and keeps it until it is delivered; `report` gets lines for stderr.

    `pause` waits for an event or for seconds. `failed_count` counts the notifications that were dropped.
    """

    def __init__(
        self,
        targets: Sequence[NotifyTarget],
        store: IncidentStore,
        report: Callable[[str], None],
        *,
        pause: Callable[[Event, float], object] = Event.wait,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._report = store, report
        self.failed_count = 0
        by_id = {target.id: target for target in targets}
        if count := store.keep_targets(by_id):
            report(f"{counted(count, 'notification')} for targets that --notify no longer names: dropped.")
        self._deliveries = [_Delivery(target, store, report, pause, now_s) for target in by_id.values()]

    @property
    def incidents(self) -> Sequence[OpenIncident]:
        """The incidents that were open when the last run ended."""
        return self._store.incidents

    @property
    def waiting_count(self) -> int:
        """The number of notifications that wait, each once per target."""
        return self._store.waiting_count

    def send(self, incidents: Sequence[OpenIncident], document: Document) -> None:
        """Store the open incidents and a notification, and deliver it soon."""
        target_ids = [delivery.target.id for delivery in self._deliveries]
        for dropped in self._store.add(incidents, document, target_ids):
            self.failed_count += 1
            self._report(f"{MOST_WAITING} notifications wait already. Dropped the oldest: {dropped.get('text')}")
        for delivery in self._deliveries:
            delivery.wake()

    def save(self, incidents: Sequence[OpenIncident]) -> None:
        """Store the open incidents after a round without a notification."""
        self._store.save_incidents(incidents)

    def close(self, wait_s: float) -> bool:
        """Deliver what waits, for up to `wait_s`; return whether everything was delivered. The rest stays stored."""
        for delivery in self._deliveries:
            delivery.close()
        until_s = time.monotonic() + wait_s
        for delivery in self._deliveries:
            delivery.join(max(0.0, until_s - time.monotonic()))
        count, is_kept = self.waiting_count, self._store.is_kept
        self._store.close()
        if count:
            rest = "; the next start of this watch tries again" if is_kept else ", and will be lost"
            self._report(f"{counted(count, 'notification')} not delivered{rest}.")
        return count == 0 and self.failed_count == 0


class _Delivery:
    """Delivers to one target, in a thread."""

    def __init__(
        self, target: NotifyTarget, store: IncidentStore, report: Callable[[str], None],
        pause: Callable[[Event, float], object], now_s: Callable[[], float],
    ) -> None:  # fmt: skip
        self.target = target
        self._store, self._report, self._pause, self._now_s = store, report, pause, now_s
        self._new, self._closing, self._ended = Event(), Event(), Event()
        self._failing_since_s: float | None = None
        self._reason: str | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for a new notification."""
        self._new.set()

    def close(self) -> None:
        """End when nothing waits. A pause ends now."""
        self._closing.set()
        self._new.set()

    def join(self, wait_s: float) -> None:
        """Wait for the end; after `wait_s`, start no other attempt."""
        self._thread.join(wait_s)
        self._ended.set()

    def _run(self) -> None:
        failure_count = 0
        while not self._ended.is_set():
            is_closing = self._closing.is_set()
            document = self._store.first(self.target.id)
            if document is None:
                if is_closing:
                    return
                self._new.wait()
                self._new.clear()
            elif self._deliver(document):
                failure_count = 0
            else:
                self._pause(self._ended if is_closing else self._closing, _PAUSES_S[min(failure_count, 3)])
                # Attempts after the end of the watch begin with short pauses again.
                failure_count = failure_count + 1 if is_closing == self._closing.is_set() else 0

    def _deliver(self, document: Document) -> bool:
        """Try once; return whether the target got the notification. Report only the first failure and the end."""
        try:
            self.target.notifier(document, self.target.text)
        except Exception as error:  # noqa: BLE001 -- if the thread ended, nothing more would be delivered
            self._note_failure(error.sentence if isinstance(error, RmqctlError) else f"{type(error).__name__}.")
            return False
        if self._failing_since_s is not None:
            for_ = short_duration(round((self._now_s() - self._failing_since_s) * 1000))
            waited = counted(self._store.count(self.target.id), "notification")
            self._report(f"{self.target.label}: delivered again after {for_}; {waited} had to wait.")
            self._failing_since_s = self._reason = None
        self._store.remove(self.target.id, document)
        return True

    def _note_failure(self, reason: str) -> None:
        if self._failing_since_s is None:
            self._failing_since_s = self._now_s()
        if reason != self._reason:
            self._reason = reason
            self._report(f"{self.target.label}: {reason} Not delivered yet; rmqctl tries again until it is.")

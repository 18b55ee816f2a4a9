"""Limits reports: a problem when it begins, then once a minute while it lasts, and once when it is over.

Without a limit, a broker that is down fills the log in seconds; with one for the life of the process, a service is
silent after its first bad day.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import ceil

from msgspec import Struct

from rmqctl.model.consumption import ConsumerWarning
from rmqctl.net.clock import Clock, pause
from rmqctl.text.durations import short_duration

_LOG = logging.getLogger(__name__)
_WINDOW_S = 60.0
# Different sentences of one kind and place, for example about different messages: in the first window of a problem, and
# in each of the next ones.
_FIRST_SENTENCES, _MORE_SENTENCES = 10, 3
# A problem is over once it has worked for this long: it may work and fail in turn.
_QUIET_S = 5.0
# What neither fails nor works again for this long is forgotten, for example a queue of another member by now.
_FORGET_S = 600.0
# Kinds and places that are limited by themselves; further ones share one limit per kind.
_MOST_RECORDS = 1000
_LOOK_S = 1.0


class Problem(Struct, frozen=True):
    """Something to report. `error` is the failure of the listener, with its traceback."""

    kind: ConsumerWarning
    sentence: str
    error: BaseException | None = None

    def __str__(self) -> str:
        return self.sentence


Tell = Callable[[Problem], object]
# What most parts of a consumer need of Problems.
Report = Callable[[ConsumerWarning, str], None]


class _Record:
    """One kind of problem at one place. All times are monotonic."""

    def __init__(self, now_s: float) -> None:
        self.began_s = self.last_s = self.window_s = now_s
        self.count = self.unsaid_count = 0
        self.sentence = self.works_sentence = ""
        self.said: set[str] = set()
        self.most_sentences = _FIRST_SENTENCES
        self.works_s: float | None = None

    def open_window(self, now_s: float, said: set[str], most_sentences: int) -> None:
        self.window_s, self.unsaid_count, self.said, self.most_sentences = now_s, 0, said, most_sentences


class Problems:
    """Passes on problems to `tell`, each at most some times a minute. Any thread may call it."""

    def __init__(self, tell: Tell, clock: Clock) -> None:
        self._tell_user = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[tuple[ConsumerWarning, str], _Record] = {}

    def __call__(
        self, kind: ConsumerWarning, sentence: str, place: str = "", *, error: BaseException | None = None,
        count: int = 1,
    ) -> None:  # fmt: skip
        """Report a problem, or several of them in one sentence. Problems of one place have one cause."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            record = self._find(kind, place, now_s)
            record.last_s, record.works_s = now_s, None
            record.count += count
            record.sentence = sentence
            if now_s - record.window_s >= _WINDOW_S and not record.unsaid_count:
                record.open_window(now_s, set(), _FIRST_SENTENCES)
            is_new = sentence not in record.said and len(record.said) < record.most_sentences
            if is_new:
                record.said.add(sentence)
            else:
                record.unsaid_count += count
        if is_new:
            self._tell(Problem(kind, sentence, error))

    def _find(self, kind: ConsumerWarning, place: str, now_s: float) -> _Record:
        if (kind, place) not in self._records and len(self._records) >= _MOST_RECORDS:
            place = ""
        return self._records.setdefault((kind, place), _Record(now_s))

    @property
    def has_open(self) -> bool:
        """Whether works() has something to do."""
        return bool(self._records)

    def open(self) -> list[str]:
        """Return the last sentence of each problem that lasts, or that occurred in the last minutes."""
        with self._lock:
            return [record.sentence for record in self._records.values() if record.works_s is None]

    def works(self, kind: ConsumerWarning, place: str, sentence: str) -> None:
        """Note that it works there; `sentence`, without its full stop, says so once it has worked for a while."""
        if not self._records:
            return
        with self._lock:
            record = self._records.get((kind, place))
            if record is not None and record.works_s is None:
                record.works_s, record.works_sentence = self._clock.monotonic_s(), sentence

    def look(self) -> None:
        """Report what is over, and how often problems occurred that were not reported each time."""
        self._look(is_end=False)

    def end(self) -> None:
        """Report what look() would report later."""
        self._look(is_end=True)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await pause(self._clock, _LOOK_S)
            if self._records:
                self.look()

    def _look(self, *, is_end: bool) -> None:
        problems = []
        with self._lock:
            now_s = self._clock.monotonic_s()
            for (kind, place), record in list(self._records.items()):
                if record.works_s is not None and (is_end or now_s - record.works_s >= _QUIET_S):
                    problems.append(Problem(kind, _over(record, record.works_s)))
                    del self._records[kind, place]
                elif record.unsaid_count and (is_end or now_s - record.window_s >= _WINDOW_S):
                    problems.append(Problem(kind, _again(record, now_s)))
                    record.open_window(now_s, {record.sentence}, _MORE_SENTENCES)
                elif now_s - record.last_s > _FORGET_S:
                    del self._records[kind, place]
        for problem in problems:
            self._tell(problem)

    def _tell(self, problem: Problem) -> None:
        try:
            self._tell_user(problem)
        except Exception:  # noqa: BLE001 - it must not end the part of the consumer that reports
            _LOG.exception("The report of a consumer failed: %s", problem.sentence)


def _over(record: _Record, works_s: float) -> str:
    after = short_duration(1000 * max(1, ceil(works_s - record.began_s)))
    often = f", {record.count:,} failures" if record.count > 1 else ""
    return f"{record.works_sentence} after {after}{often}."


def _again(record: _Record, now_s: float) -> str:
    seconds = max(1, ceil(now_s - record.window_s))
    return f"Again, {record.unsaid_count:,} more in {seconds} s, the last: {record.sentence}"

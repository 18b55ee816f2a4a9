"""Requests that wait for messages (PullRequestHoldService): woken by a message that arrives, or by their timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from rmqctl.net.clock import Clock, Timer

_T = TypeVar("_T")
_Key = tuple[str, int]
# An arrived message: its number in order of arrival, its tag's code, and its properties where they are known.
_News = tuple[int, int, Mapping[str, str] | None]


class HeldRequest:
    """One request that waits. `wake` is called once, with whether a message arrived.

    `seen_count` is the number of messages that had arrived before the wait started: the request has seen those.
    """

    __slots__ = (
        "_recheck", "_timer", "accepts_code", "accepts_properties", "is_over", "keys", "owner", "recheck_s",
        "seen_count", "wake",
    )  # fmt: skip

    def __init__(
        self, keys: list[_Key], wake: Callable[[bool], None], *, owner: object,
        accepts_code: Callable[[int], bool] | None,
        accepts_properties: Callable[[Mapping[str, str]], bool] | None, recheck_s: float | None, seen_count: int,
    ) -> None:  # fmt: skip
        self.keys = keys
        self.seen_count = seen_count
        self.owner = owner
        self.accepts_code = accepts_code
        self.accepts_properties = accepts_properties
        self.recheck_s = recheck_s
        self.wake = wake
        self.is_over = False
        self._timer: Timer | None = None
        self._recheck: Timer | None = None

    def accepts(self, news: _News) -> bool:
        """Return whether a message wakes the request."""
        _, code, properties = news
        if self.accepts_code is not None and not self.accepts_code(code):
            return False
        return self.accepts_properties is None or properties is None or self.accepts_properties(properties)

    def end_at(self, timer: Timer) -> None:
        """Keep the timer that ends the wait, to cancel it later."""
        self._timer = timer

    def recheck(self, clock: Clock, end: Callable[[], object]) -> None:
        """End the wait after `recheck_s`, because messages arrived that the request does not accept."""
        if self._recheck is None and self.recheck_s is not None:
            self._recheck = clock.call_later(self.recheck_s, end)

    def end(self, *, has_news: bool) -> None:
        """End the wait."""
        if self.is_over:
            return
        self.is_over = True
        for timer in (self._timer, self._recheck):
            if timer is not None:
                timer.cancel()
        self.wake(has_news)


# More than all clients of a sandbox hold at the same time.
_MAX_COUNT = 50_000


class HeldRequests:
    """Requests that wait, by (topic, queue id).

    Messages that arrive in one turn of the event loop wake a request once, so that a batch is answered as a batch.
    Beyond `max_count`, the request that waits longest is answered. A caller whose requests are repeated automatically
    checks `is_full` first. A `wake` that raises is reported to the event loop; the others are woken nevertheless.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[_Key, dict[HeldRequest, None]] = {}
        self.max_count = _MAX_COUNT
        # In order of arrival.
        self._all: dict[HeldRequest, None] = {}
        self._by_owner: dict[object, dict[HeldRequest, None]] = {}
        self._news_count = 0
        self._news: dict[_Key, list[_News]] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def is_full(self) -> bool:
        """Whether one more would end the wait of another."""
        return len(self._all) >= self.max_count

    def count(self, topic: str, queue_id: int) -> int:
        """Return how many requests wait for a queue."""
        return len(self._waiting.get((topic, queue_id), {}))

    def hold(
        self, keys: list[_Key], seconds: float, wake: Callable[[bool], None], *, owner: object = None,
        accepts_code: Callable[[int], bool] | None = None,
        accepts_properties: Callable[[Mapping[str, str]], bool] | None = None, recheck_s: float | None = None,
    ) -> HeldRequest:  # fmt: skip
        """Hold a request until a message that it accepts arrives in one of its queues, or until a timeout in seconds.

        `owner` is the requester, for example a connection: end_owner() ends the waits of an owner that has left. With
        `recheck_s`, the wait ends this many seconds after a message that the request does not accept, so that the
        client learns its new offset.
        """
        hold = HeldRequest(
            keys, wake, owner=owner, accepts_code=accepts_code, accepts_properties=accepts_properties,
            recheck_s=recheck_s, seen_count=self._news_count,
        )  # fmt: skip
        for key in keys:
            self._waiting.setdefault(key, {})[hold] = None
        self._all[hold] = None
        if owner is not None:
            self._by_owner.setdefault(owner, {})[hold] = None
        if len(self._all) > self.max_count:
            self._end(next(iter(self._all)), has_news=False)
        hold.end_at(self._clock.call_later(seconds, lambda: self._end(hold, has_news=False)))
        return hold

    def arrived(
        self, topic: str, queue_id: int, tags_code: int, properties: Mapping[str, str] | None = None
    ) -> None:  # fmt: skip
        """Report a stored message to the requests that wait for its queue."""
        key = (topic, queue_id)
        if key not in self._waiting:
            return
        if not self._news:
            asyncio.get_running_loop().call_soon(self._wake)
        self._news_count += 1
        self._news.setdefault(key, []).append((self._news_count, tags_code, properties))

    def end_all(self, topic: str) -> None:
        """Wake every request that waits for a topic, because the topic was changed or deleted."""
        for key in [key for key in self._waiting if key[0] == topic]:
            for hold in list(self._waiting.get(key, {})):
                self._end(hold, has_news=True)

    def end_owner(self, owner: object) -> None:
        """End all waits of an owner that has left."""
        for hold in list(self._by_owner.get(owner, {})):
            self._end(hold, has_news=False)

    def wake(self, hold: HeldRequest) -> None:
        """Wake one request."""
        self._end(hold, has_news=True)

    def close(self) -> None:
        """Drop all waiting requests without waking them."""
        for waiting in self._waiting.values():
            for hold in waiting:
                hold.wake = lambda _: None
                hold.end(has_news=False)
        self._waiting.clear()
        self._all.clear()
        self._by_owner.clear()

    def _wake(self) -> None:
        all_news, self._news = self._news, {}
        for key, arrived in all_news.items():
            for hold in list(self._waiting.get(key, {})):
                unseen = [news for news in arrived if news[0] > hold.seen_count]
                if any(map(hold.accepts, unseen)):
                    self._end(hold, has_news=True)
                elif unseen:
                    hold.recheck(self._clock, lambda hold=hold: self._end(hold, has_news=True))  # type: ignore[misc]

    def _end(self, hold: HeldRequest, *, has_news: bool) -> None:
        self._all.pop(hold, None)
        _take_out(self._by_owner, hold.owner, hold)
        for key in hold.keys:
            _take_out(self._waiting, key, hold)
        try:
            hold.end(has_news=has_news)
        except Exception as error:  # noqa: BLE001 - reported as asyncio reports an error in a timer
            asyncio.get_running_loop().call_exception_handler({"message": "a held request failed", "exception": error})


def _take_out(table: dict[_T, dict[HeldRequest, None]], key: _T, hold: HeldRequest) -> None:
    holds = table.get(key)
    if holds is not None:
        holds.pop(hold, None)
        if not holds:
            del table[key]

"""The result of a replay: what this run sent, what an earlier one had sent, and what is not stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from rmqctl.errors import RmqctlError, UsageError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.text.words import counted


class ReplayOutcome(Struct):
    """The result of a run. `found_count`: those of `sent_count` whose copy was found after a lost response.

    `earlier_count` were sent by an earlier run that did not learn it; this run found their copies. `unsafe_count` are
    stored less safely than the broker's configuration requires. `in_doubt_count` may be stored, `refused_count` are
    not.
    """

    sent_count: int = 0
    found_count: int = 0
    earlier_count: int = 0
    unsafe_count: int = 0
    dropped_count: int = 0
    refused_count: int = 0
    in_doubt_count: int = 0
    by_topic: dict[str, int] = field(default_factory=dict)
    earlier_by_topic: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    is_interrupted: bool = False

    @property
    def stored_count(self) -> int:
        """Number that are known to be on the target now, and were not known before."""
        return self.sent_count + self.earlier_count

    @property
    def is_unconfirmed(self) -> bool:
        """Whether anything may be stored, or is stored less safely than the broker is configured to."""
        return bool(self.in_doubt_count or self.unsafe_count)

    def items(self) -> list[dict[str, Any]]:
        """Return what was sent by topic, by their keys in JSON."""
        return [
            {
                "targetTopic": topic,
                "count": self.by_topic.get(topic, 0),
                "earlierCount": self.earlier_by_topic.get(topic, 0),
            }
            for topic in sorted({*self.by_topic, *self.earlier_by_topic})
        ]

    def summary(self) -> dict[str, int]:
        """Return its numbers, by their keys in JSON."""
        return {
            "sentCount": self.sent_count,
            "foundCount": self.found_count,
            "earlierCount": self.earlier_count,
            "droppedCount": self.dropped_count,
            "refusedCount": self.refused_count,
            "inDoubtCount": self.in_doubt_count,
            "unsafeCount": self.unsafe_count,
        }

    def notes(self) -> list[str]:
        """Return what to say about the outcome next to its numbers."""
        said = [
            f"{what} {counted(count, noun)}."
            for what, count, noun in (
                ("Sent by an earlier run, and found on the target:", self.earlier_count, "message"),
                ("Found on the target after a send that was not answered:", self.found_count, "message"),
                ("The transform dropped", self.dropped_count, "dead letter"),
                ("Stored less safely than the broker is configured to:", self.unsafe_count, "message"),
            )
            if count
        ]
        if self.in_doubt_count:
            messages = counted(self.in_doubt_count, "message")
            return [*said, f"{messages} may be stored. Run the same command again to look for them."]
        return [*said, "Run the same command again to resume."] if self.failures else said

    @contextmanager
    def noting_end(self, planned_count: int) -> Iterator[None]:
        """Note an error that ends a run which has stored something, and how many dead letters it did not reach.

        Raises UsageError, and any error of a run that has stored nothing.
        """
        try:
            yield
        except UsageError:
            raise
        except RmqctlError as error:
            if not self.stored_count:
                raise
            self._note_end(error, planned_count)

    def _note_end(self, error: RmqctlError, planned_count: int) -> None:
        settled_count = self.stored_count + self.dropped_count + self.refused_count + self.in_doubt_count
        left_count = planned_count - settled_count
        if left_count > 0 or not self.failures:
            what = counted(left_count, "more dead letter") if left_count > 0 else "the rest"
            self.failures.append(Failure(None, what, error, Attempt.WRITE))

    def count_sent(self, topic: str, count: int) -> None:
        """Count what this run sent to a topic."""
        self.sent_count += count
        self.by_topic[topic] = self.by_topic.get(topic, 0) + count

    def count_earlier(self, topic: str) -> None:
        """Count a message that an earlier run sent to a topic."""
        self.earlier_count += 1
        self.earlier_by_topic[topic] = self.earlier_by_topic.get(topic, 0) + 1

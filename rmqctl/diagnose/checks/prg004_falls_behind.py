"""PRG004: messages arrive faster than the group consumes them."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import growing_topics
from rmqctl.text.durations import short_duration
from rmqctl.text.numbers import rate_words, rounded_rate
from rmqctl.text.words import counted


@check(
    "PRG004",
    Severity.WARNING,
    "messages arrive faster than the group consumes them",
    meaning="The lag grows although members consume. Messages that are still unread when the retention ends are "
    "deleted.",
    advice="If all threads are busy (PRG006), make the listener faster, or add threads or members, up to the number "
    "of queues. For a single hot queue, see SKW003. A longer --for gives steadier rates.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
    may_pass=True,
)
def falls_behind(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the arrival rate with the progress of the members' positions, where the head is at least 30 s old."""
    for topic, growth in growing_topics(facts).items():
        soon = (
            f" At this rate the oldest reaches the retention in about {short_duration(growth.retention_in_ms)}."
            if growth.retention_in_ms is not None and growth.retention_in_ms > 0
            else ""
        )
        yield Symptom(
            f"{topic} receives {rate_words(growth.put_tps)} msg/s, but the group consumes "
            f"{rate_words(growth.done_tps)} msg/s: "
            f"{counted(growth.behind, 'unread message')}, the oldest {short_duration(growth.age_ms)} old.{soon}",
            (
                Evidence("putTps", rounded_rate(growth.put_tps), topic),
                Evidence("consumeTps", rounded_rate(growth.done_tps), topic),
                Evidence("timeLagMs", growth.age_ms, topic),
            ),
            command("offset", "show", facts.group, "--topic", topic, "--sort", "-lag"),
            topic,
        )

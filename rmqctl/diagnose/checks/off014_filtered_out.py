"""OFF014: a filter leaves out most of what waits."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command


@check(
    "OFF014",
    Severity.INFO,
    "the lag includes messages that the members' filter leaves out",
    meaning="A broker counts every message as lag until members pull past it, whatever its tag. Messages that the "
    "filter leaves out are never consumed and do not wait for the listener.",
    advice="Do not judge the listener by this lag. If expected messages are not consumed, compare the tags of "
    "producers with the subscription: rmqctl message find TOPIC shows them.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.BACKLOG),
)
def filtered_out(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the tag hashes of waiting messages with those of the subscription, where that leaves out half or more."""
    wanted = facts.wanted()
    for topic, sample in facts.filter_samples.items():
        skipped = sample.count - sample.passing_count
        if not sample.count or skipped * 2 < sample.count:
            continue
        lag = sum(row.lag or 0 for row in facts.rows if row.mq.topic == topic)
        expression = next(iter(wanted[topic].values())).expression
        yield Symptom(
            f"The filter {expression!r} leaves out {skipped} of {sample.count} messages sampled from the lag "
            f"({lag}) of {topic}.",
            (
                Evidence("sampledCount", sample.count, topic),
                Evidence("passingCount", sample.passing_count, topic),
                *(Evidence("subscription", item.expression, name) for name, item in wanted[topic].items()),
            ),
            command("offset", "peek", facts.group, "--topic", topic),
            topic,
        )

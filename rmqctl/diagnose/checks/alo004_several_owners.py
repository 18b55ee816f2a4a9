"""ALO004: several members hold one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.progress import Unknown
from rmqctl.text.words import agreeing, counted


@check(
    "ALO004",
    Severity.ERROR,
    "queues have several owners",
    meaning="Each owner consumes all messages of the queue, and their commits overwrite each other.",
    advice="To find the member that should hold them: rmqctl whatif allocate GROUP. Common causes: a client id that "
    "is used twice (MEM001), different strategies (ALO001), brokers that list different members (MEM002).",
    needs=(Need.MEMBERS,),
    may_pass=True,
)
def several_owners(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that more than one member reports as its own."""
    if not facts.is_online or facts.is_broadcasting:
        return
    by_topic: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    totals = Counter(row.mq.topic for row in facts.rows)
    for row in facts.rows:
        # Several members may pop from one queue.
        if len(row.client_ids) > 1 and row.reasons.get("inflight") is not Unknown.POP:
            by_topic.setdefault(row.mq.topic, []).append((str(row.mq), row.client_ids))
    for topic, queues in by_topic.items():
        yield Symptom(
            f"{len(queues)} of {counted(totals[topic], 'queue')} of {topic} {agreeing(len(queues), 'is')} "
            "held by several members: each of them consumes all messages.",
            tuple(Evidence(queue, "held", client_id) for queue, client_ids in queues for client_id in client_ids),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )

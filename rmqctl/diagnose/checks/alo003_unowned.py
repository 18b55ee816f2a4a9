"""ALO003: no member holds a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.diagnose.rules.shares import may_lack_owner
from rmqctl.text.words import agreeing, counted, listed


@check(
    "ALO003",
    Severity.ERROR,
    "queues have no owner",
    meaning="No member consumes these queues. Their messages wait and are deleted unread when the retention ends.",
    advice="To find the member that should hold them: rmqctl whatif allocate GROUP. Common causes: a member that does "
    "not subscribe to the topic (SUB002), different strategies (ALO001), a member whose rebalance hangs.",
    may_pass=True,
)
def unowned(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for readable queues that no member reports as its own, or whose broker has no connected member."""
    for topic, brokers in facts.unserved_brokers.items():
        yield Symptom(
            f"No member is connected to {listed(brokers)}: the queues of {topic} there have no owner.",
            tuple(Evidence("connections", 0, name) for name in brokers),
            command("group", "members", facts.group, "-o", "wide"),
            topic,
        )
    if not facts.knows_holders or facts.snapshot is None:
        return
    owners = {row.mq: row.client_ids for row in facts.rows if not may_lack_owner(row.mq, row)}
    by_topic: dict[str, list[str]] = {}
    totals = Counter(mq.topic for mq in facts.snapshot.queues)
    for mq in facts.snapshot.queues:
        if mq in owners and not owners[mq]:
            by_topic.setdefault(mq.topic, []).append(str(mq))
    for topic, queues in by_topic.items():
        yield Symptom(
            f"{len(queues)} of {counted(totals[topic], 'queue')} of {topic} {agreeing(len(queues), 'has')} no owner.",
            (
                *(Evidence("clientId", "none", queue) for queue in queues),
                Evidence("askedMembers", len(facts.running), "rmqctl"),
            ),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )

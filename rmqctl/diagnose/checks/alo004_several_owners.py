"""ALO004: several members consume one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.member_settings import BothWays, both_ways, pulled_queues
from rmqctl.text.words import agreeing, counted, listed


@check(
    "ALO004",
    Severity.ERROR,
    "queues have several owners",
    meaning="Each owner consumes all messages of the queue, and their commits overwrite each other. That also holds "
    "for a queue that one member pops and another pulls: the broker delivers each message to both.",
    advice="To find the member that should hold them: rmqctl whatif allocate GROUP. Common causes: a client id that "
    "is used twice (MEM001), different strategies (ALO001), brokers that list different members (MEM002). If some "
    "members pop, set clientRebalance=false for all and let none consume in order, or set the topic back to pull: "
    "mqadmin setConsumeMode -m PULL.",
    needs=(Need.MEMBERS,),
    may_pass=True,
)
def several_owners(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that several members pull, and for those that one member pulls and another pops."""
    if not facts.is_online:
        return
    totals = Counter(row.mq.topic for row in facts.rows)
    owners: dict[MessageQueue, list[str]] = {}
    for client_id in sorted(facts.sharers):
        for mq in pulled_queues(facts.running[client_id]):
            owners.setdefault(mq, []).append(client_id)
    held: dict[str, dict[MessageQueue, list[str]]] = {}
    for row in facts.rows:
        if len(owners.get(row.mq, ())) > 1:
            held.setdefault(row.mq.topic, {})[row.mq] = owners[row.mq]
    for topic, queues in held.items():
        yield Symptom(
            f"{_of_topic(len(queues), totals[topic], topic)} held by several members: each of them consumes all "
            "messages.",
            tuple(Evidence(str(mq), "held", client_id) for mq, holders in queues.items() for client_id in holders),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )
    mixed: dict[str, dict[MessageQueue, BothWays]] = {}
    for mq, ways in both_ways(facts.running, (row.mq for row in facts.rows)).items():
        mixed.setdefault(mq.topic, {})[mq] = ways
    for topic, by_queue in mixed.items():
        pulling = sorted({client_id for ways in by_queue.values() for client_id in ways.pulling})
        popping = sorted({client_id for ways in by_queue.values() for client_id in ways.popping})
        yield Symptom(
            f"{_of_topic(len(by_queue), totals[topic], topic)} pulled by {listed(pulling)} and popped by "
            f"{listed(popping)}: each message is consumed both ways.",
            (
                *(Evidence(str(mq), "pulled", name) for mq, ways in by_queue.items() for name in ways.pulling),
                *(Evidence(str(mq), "popped", name) for mq, ways in by_queue.items() for name in ways.popping),
            ),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
            key=f"{topic} popped",
        )


def _of_topic(count: int, total: int, topic: str) -> str:
    return f"{count} of {counted(total, 'queue')} of {topic} {agreeing(count, 'is')}"

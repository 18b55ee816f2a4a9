"""MEM008: a member holds no queue."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import CONSUME_PASSIVELY
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.rules.member_settings import broadcasts, pulled_queues
from rmqctl.text.words import counted, listed


@check(
    "MEM008",
    Severity.INFO,
    "members hold no queue",
    meaning="Each queue is consumed by one member. With more members than queues, the extra members wait until "
    "another one leaves.",
    advice="Add queues to the topic, or run fewer members. If there are enough queues, ALO002 shows which members "
    "hold a share other than the computed one.",
    needs=(Need.MEMBERS,),
)
def idle(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for members that answered and hold only retry queues or nothing."""
    types = facts.consume_types()
    waiting = [
        client_id
        for client_id, info in facts.running.items()
        # Only push consumers report all that they hold; those that broadcast hold every queue.
        if types.get(client_id) == CONSUME_PASSIVELY
        and not broadcasts(info)
        and all(mq.topic.startswith(RETRY_PREFIX) for mq in (*pulled_queues(info), *info.pop_unacked))
    ]
    if waiting:
        has = "holds" if len(waiting) == 1 else "hold"
        yield Symptom(
            f"{len(waiting)} of {counted(len(facts.members), 'member')} {has} no queue: {listed(waiting)}.",
            tuple(Evidence("queueCount", 0, client_id) for client_id in waiting),
            command("whatif", "allocate", facts.group),
        )

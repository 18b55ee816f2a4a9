"""ALO002: a member holds other queues than its strategy gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Options, find_strategy
from rmqctl.rules.words import counted, listed
from rmqctl.whatif.looks import compare_with_real
from rmqctl.whatif.scene import share_all

# Those that need no options, which members do not report.
_COMPUTABLE = frozenset({"averagely", "circle"})


@check(
    "ALO002",
    Severity.ERROR,
    "a member holds other queues than its strategy gives it",
    meaning="Every member computes its share from the list of queues and the list of members. One that holds another "
    "share saw another list, cannot get a queue's lock, or no longer rebalances. What it lacks may be consumed by "
    "no member (ALO003), and what it has too much by two (ALO004).",
    advice="Compare the members that each broker names (MEM002) and look at the threads of that member "
    "(RebalanceService): rmqctl group members GROUP -o wide.",
    may_pass=True,
)
def other_share(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each member's real queues with the computed ones, client by client."""
    scene = facts.scene
    if scene is None or scene.live is None or facts.is_popping or facts.is_broadcasting or not facts.is_online:
        return
    (strategy, *others) = sorted(scene.live.strategies) or [""]
    if others or strategy not in _COMPUTABLE:
        return  # ALO001, or a strategy whose options are unknown
    try:
        computed = share_all(scene, find_strategy(strategy, Options()))
    except AllocationError:
        return
    looks = compare_with_real(scene, computed, Options())
    reporting = facts.holders()
    for client_id in looks.differing if looks is not None else ():
        if client_id not in reporting:
            continue
        member = scene.live.members[client_id]
        due = {mq for mq in computed.get(client_id, ()) if member.may_want(mq.topic)}
        # A retry topic is made at the first heartbeat, and members hear of it up to 30 s later.
        lacking = sorted(mq for mq in due - member.held if not mq.topic.startswith(RETRY_PREFIX))
        surplus = sorted(mq for mq in member.held - due if mq.topic in scene.topics)
        if lacking or surplus:
            parts = [f"lacks {_queues(lacking)}"] * bool(lacking)
            parts += [f"holds {_queues(surplus)} of others"] * bool(surplus)
            yield Symptom(
                f"{client_id} does not hold its share by {strategy}: it {' and '.join(parts)}.",
                (
                    Evidence("queues", sorted(map(str, member.held)), client_id),
                    Evidence("computed", sorted(map(str, due)), "rmqctl"),
                ),
                command("whatif", "allocate", facts.group),
                # The same queues at both looks: others are a rebalance that goes on.
                key=f"{client_id} {lacking} {surplus}",
            )


def _queues(queues: Sequence[MessageQueue]) -> str:
    return f"{counted(len(queues), 'queue')} ({listed(queues)})"

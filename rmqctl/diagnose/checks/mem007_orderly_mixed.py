"""MEM007: some members consume in order and some do not."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import listed


@check(
    "MEM007",
    Severity.ERROR,
    "only some members consume in order",
    meaning="The order within a queue is lost whenever a concurrent member holds it. While an orderly member holds "
    "the lock of any queue, brokers from 5.1.1 on turn the retries of concurrent members into dead letters.",
    advice="Make all members of a group consume the same way.",
    needs=(Need.MEMBERS,),
)
def orderly_mixed(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare PROP_CONSUMEORDERLY."""
    orderly = {name: own.is_orderly for name, own in facts.settings.items() if own.is_orderly is not None}
    if len(set(orderly.values())) > 1:
        in_order = listed(client_id for client_id, is_orderly in orderly.items() if is_orderly)
        yield Symptom(
            f"Only some members consume in order: {in_order}. While they hold a queue's lock, "
            "brokers from 5.1.1 on turn the others' retries into dead letters.",
            tuple(Evidence("PROP_CONSUMEORDERLY", value, name) for name, value in orderly.items()),
            command("group", "members", facts.group, "-o", "wide"),
        )

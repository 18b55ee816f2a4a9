"""MEM002: a broker of a member's topics does not see the member."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command


@check(
    "MEM002",
    Severity.ERROR,
    "a broker does not see a member",
    meaning="Members ask any broker of a topic for the list of members. A broker that does not see every member "
    "returns a different list, so some queues have two owners and some have none. It also refuses pulls of the member "
    "that it does not see (24 SUBSCRIPTION_NOT_EXIST).",
    advice="Check the network between that client and the broker, and the client's log for failed heartbeats. A "
    "client with an old route does not know a new broker for up to 30 s.",
    may_pass=True,
)
def unseen(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the brokers of each member's topics with those that list it (GET_CONSUMER_LIST_BY_GROUP)."""
    for member in facts.members:
        if member.unseen_at:
            yield Symptom(
                f"{member.client_id} is not seen by {', '.join(member.unseen_at)}.",
                (
                    *(Evidence("clientIdList", "not named", name) for name in member.unseen_at),
                    *(Evidence("clientIdList", "named", name) for name in member.addresses),
                ),
                command("group", "members", facts.group, "-o", "wide"),
                key=member.client_id,
            )

"""PUL005: a broker refuses the pulls of members that filter by SQL92."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.refusals import refused_filters
from rmqctl.text.words import counted, listed


@check(
    "PUL005",
    Severity.ERROR,
    "a broker refuses pulls that filter by SQL92 (enablePropertyFilter=false)",
    meaning="A broker evaluates SQL92 filters only with enablePropertyFilter=true; the default is false. Without it, "
    "members stay connected and hold their queues, but the broker refuses each pull. New Java clients do not start.",
    advice="Set enablePropertyFilter=true on the broker: mqadmin updateBrokerConfig -b ADDRESS -k "
    "enablePropertyFilter -v true, and in its configuration file. Or subscribe by tags.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.BACKLOG),
)
def filter_refused(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the filters of members with the settings of brokers. WARNING while no message waits."""
    for (topic, name), client_ids in refused_filters(facts).items():
        lags = [row.lag for row in facts.rows if row.mq.topic == topic and row.mq.broker_name == name]
        count = sum(lag or 0 for lag in lags)
        yield Symptom(
            f"{name} refuses the pulls of {listed(client_ids)} from {topic}, because they filter by SQL92 "
            f"(enablePropertyFilter=false). {_waiting(count, is_exact=None not in lags)}",
            (
                Evidence("enablePropertyFilter", False, name),
                Evidence("waiting", count, f"{topic}@{name}"),
                *(
                    Evidence("subscription", item.expression, client_id, item.version_ms)
                    for client_id, item in facts.wanted().get(topic, {}).items()
                ),
            ),
            command("broker", "show", name, "--key", "enablePropertyFilter"),
            topic,
            key=f"{topic}@{name}",
            severity=Severity.ERROR if count or None in lags else Severity.WARNING,
        )


def _waiting(count: int, *, is_exact: bool) -> str:
    if not count:
        return "No messages wait there." if is_exact else "It is unknown how many messages wait there."
    bound = "" if is_exact else "At least "
    return f"{bound}{counted(count, 'message')} {'waits' if count == 1 else 'wait'} there."

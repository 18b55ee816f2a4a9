"""The retry topics of a group: its own, and those that brokers keep for popping clients, one per topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rmqctl.admin.offsets.retry_topics import find_retry_topics
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Consequence
from rmqctl.model.route import TopicRoute
from rmqctl.protocol import bodies, headers
from rmqctl.text.words import counted, listed

from .group_lookup import FoundGroup


async def find_retry_routes(client: Client, found: FoundGroup) -> tuple[Mapping[str, TopicRoute], list[RmqctlError]]:
    """Return the routes of the existing retry topics, by topic, and the errors of name servers."""
    situation, topics = found.situation, {mq.topic for mq in found.rows}
    try:
        names = await find_retry_topics(client, situation.group, topics, is_popping=situation.is_popping)
    except RmqctlError as error:
        return {}, [error]
    names |= {topic for topic in found.known_topics if topic.startswith(RETRY_PREFIX)}
    routes = await ask_all(sorted(names), client.route)
    return routes.ok, [error for error in routes.failed.values() if not isinstance(error, NotFoundError)]


async def describe_waiting(client: Client, found: FoundGroup, changed: Collection[str]) -> tuple[Consequence, ...]:
    """Return how many messages wait in retry topics that are not to be changed."""
    group = found.situation.group
    routes, errors = await find_retry_routes(client, found)
    places = [
        (topic, data.broker_name)
        for topic, route in routes.items()
        if topic not in changed
        for data in route.queue_data
        if data.broker_name in found.brokers
    ]

    async def ask(place: tuple[str, str]) -> int:
        topic, name = place
        answer = await client.ask_broker(found.brokers[name], headers.get_consume_stats(group, topic))
        queues = bodies.decode_consume_stats(answer.command.body).queues
        return sum(max(0, item.broker_offset - item.consumer_offset) for item in queues.values())

    answers = await ask_all(places, ask)
    waiting = {place: count for place, count in answers.ok.items() if count}
    consequences = []
    if waiting:
        count, topics = sum(waiting.values()), sorted({topic for topic, _ in waiting})
        wait, stay = ("waits", "stays") if count == 1 else ("wait", "stay")
        text = (
            f"{counted(count, 'message')} {wait} in {listed(topics)}, and {stay} there. "
            "Add --with-retry to include the retry topics."
        )
        consequences.append(Consequence("RETRY_LEFT", text))
    errors += answers.failed.values()
    if errors:
        at = f" at {listed(sorted({name for _, name in answers.failed}))}" if answers.failed else ""
        text = f"It is unknown whether messages wait in the group's retry topics{at}: {errors[0].sentence}"
        consequences.append(Consequence("RETRY_UNKNOWN", text))
    return tuple(consequences)

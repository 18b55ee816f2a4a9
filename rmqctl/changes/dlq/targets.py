"""The targets of a replay: the queues of each target topic, and the brokers to avoid."""

from __future__ import annotations

from collections.abc import Iterable

from rmqctl.admin.results import ask_all, not_found
from rmqctl.changes.dlq.rules.replay import ReplayTarget
from rmqctl.client.core import Client
from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.client.partial_answers import find_silent_servers
from rmqctl.consumer.guards.retry_guard import RetryGuard, explain
from rmqctl.errors import NotAuthorisedError, NotFoundError, RefusedError, RmqctlError, UnreachableError
from rmqctl.model.names import is_sent_to_by_rocketmq
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.producer.producer import master_of
from rmqctl.protocol import headers
from rmqctl.rules.send_queues import queue_of_key, writable_queues
from rmqctl.rules.topics import own_topics
from rmqctl.text.words import listed


class TargetQueues:
    """Returns the queues to send to. `ends` is each queue's end at first use, later the end after the last stored copy.

    What is sent from then on is stored at this offset or after it.
    """

    def __init__(self, client: Client, target: ReplayTarget, group: str) -> None:
        self.ends: dict[MessageQueue, int] = {}
        self._client = client
        self._target = target
        self._group = group
        self._routes = FreshRoutes(client)
        self._guard = RetryGuard(client, group, "")
        # The last turn in which a broker refused or did not answer, by topic and name.
        self._failed: dict[tuple[str, str], int] = {}
        self._turn = 0
        # The writable queues of each topic when it was first used: a sharding key stays in one queue for the whole run.
        self._first_queues: dict[str, list[MessageQueue]] = {}

    async def queues(self, topic: str) -> list[tuple[MessageQueue, str]]:
        """Return the queues of a topic that accept messages now, each with the address of its master.

        Brokers that failed are skipped unless all failed. Raises NotFoundError for a topic that does not exist,
        RefusedError for RocketMQ's own topics, if no queue is writable, or if every broker would turn retries into dead
        letters; NotAuthorisedError or UnreachableError if no broker reports the ends of its queues.
        """
        if not self._target.is_retry and (
            is_sent_to_by_rocketmq(topic) or topic in own_topics(await self._client.cluster())
        ):
            sentence = f"{topic} is a topic to which only RocketMQ itself sends."
            raise RefusedError(sentence, hint="Send these dead letters elsewhere: to the retry topic, or --to-topic.")
        failed = {name for known, name in self._failed if known == topic}
        try:
            route = await self._routes.route(topic, again=bool(failed))
        except NotFoundError as error:
            raise not_found(error, await find_silent_servers(self._client, topic)) from None
        queues = await self._free_queues(route)
        self._first_queues.setdefault(topic, queues)
        unread = await self._find_ends(route, [mq for mq in queues if mq not in self.ends])
        there = [mq for mq in queues if mq in self.ends]
        chosen = [mq for mq in there if mq.broker_name not in failed] or there
        if not chosen:
            if refusal := next((each for each in unread if isinstance(each, NotAuthorisedError)), None):
                raise refusal
            raise UnreachableError(queues[0].broker_name, "the end of its queues cannot be read")
        return [(mq, master_of(route, mq.broker_name)) for mq in chosen]

    async def queue_of_key(self, topic: str, sharding_key: str) -> tuple[MessageQueue, str]:
        """Return the queue for a sharding key, with the address of its master, even if its broker failed.

        queues() must have been called. Raises UnreachableError without a master, or when the queue's end is unknown.
        """
        mq = queue_of_key(self._first_queues[topic], sharding_key)
        if mq not in self.ends:
            raise UnreachableError(mq.broker_name, "the end of its queues cannot be read")
        return mq, master_of(await self._routes.route(topic), mq.broker_name)

    async def _free_queues(self, route: TopicRoute) -> list[MessageQueue]:
        queues = writable_queues(route)
        if not queues:
            sentence = f"Topic {route.topic} has no writable queue."
            raise RefusedError(sentence, hint=f"For the reason: rmqctl topic status {route.topic}")
        if not self._target.is_retry:
            return list(queues)
        names = {mq.broker_name for mq in queues}
        hindered = await self._guard.find_hindrances([each for each in route.brokers if each.broker_name in names])
        if names <= hindered.keys():
            ids = listed(sorted({each.client_id for each in hindered.values()}))
            sentence = (
                f"{explain(hindered.items(), self._group)} Stop {ids}, and replay when its locks expire, 60 s later."
            )
            hint = "--to-origin and --to-topic still work, but all groups of that topic consume these messages."
            raise RefusedError(sentence, hint=hint)
        return [mq for mq in queues if mq.broker_name not in hindered]

    def next_turn(self) -> None:
        """Start the next turn. Brokers that failed in the previous turn are tried again only if all failed."""
        self._turn += 1
        self._failed = {key: turn for key, turn in self._failed.items() if turn >= self._turn - 1}

    def failed(self, topic: str, broker_name: str) -> None:
        """Note that a broker did not accept a message of a topic in this turn."""
        self._failed[topic, broker_name] = self._turn

    def stored(self, mq: MessageQueue, next_offset: int) -> None:
        """Note the offset after the last message that was stored in a queue."""
        self.ends[mq] = max(self.ends.get(mq, 0), next_offset)

    async def _find_ends(self, route: TopicRoute, queues: Iterable[MessageQueue]) -> list[RmqctlError]:
        """Read the ends of queues. Returns the errors of those that cannot be read."""

        async def fetch(mq: MessageQueue) -> int:
            request = headers.get_max_offset(mq.topic, mq.queue_id)
            return headers.int_field(await self._client.ask(master_of(route, mq.broker_name), request), "offset")

        answers = await ask_all(queues, fetch)
        self.ends.update(answers.ok)
        return list(answers.failed.values())

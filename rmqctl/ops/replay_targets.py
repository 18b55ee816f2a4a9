"""Where replayed messages go: the queues of each target topic, and which brokers to keep away from."""

from __future__ import annotations

from collections.abc import Iterable

from rmqctl.admin.results import ask_all, not_found
from rmqctl.client.core import Client
from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.client.partial_answers import find_untold
from rmqctl.client.producer import master_of
from rmqctl.consumer.retry_guard import RetryGuard, explain
from rmqctl.errors import NotAuthorisedError, NotFoundError, RefusedError, RmqctlError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.protocol import headers
from rmqctl.rules.replay import Target
from rmqctl.rules.sending import writable_queues


class Targets:
    """Returns the queues to send to. `ends` are where each queue ended at first use, then behind the last stored copy.

    What is sent from then on is stored there or behind it.
    """

    def __init__(self, client: Client, target: Target, group: str) -> None:
        self.ends: dict[MessageQueue, int] = {}
        self._client = client
        self._target = target
        self._group = group
        self._routes = FreshRoutes(client)
        self._guard = RetryGuard(client, group, "")
        # In which turn brokers refused or did not answer last, by topic and name.
        self._failed: dict[tuple[str, str], int] = {}
        self._turn = 0

    async def queues(self, topic: str) -> list[tuple[MessageQueue, str]]:
        """Return the queues of a topic that messages can go to now, each with the address of its master.

        Brokers that failed are passed over unless all did. Raises NotFoundError for a topic that does not exist,
        RefusedError where no queue is writable, or where every broker would turn retries into dead letters;
        NotAuthorisedError or UnreachableError where no broker reports the ends of its queues.
        """
        failed = {name for known, name in self._failed if known == topic}
        try:
            route = await self._routes.route(topic, again=bool(failed))
        except NotFoundError as error:
            raise not_found(error, await find_untold(self._client, topic)) from None
        queues = await self._free_queues(route)
        unread = await self._find_ends(route, [mq for mq in queues if mq not in self.ends])
        there = [mq for mq in queues if mq in self.ends]
        chosen = [mq for mq in there if mq.broker_name not in failed] or there
        if not chosen:
            if refusal := next((each for each in unread if isinstance(each, NotAuthorisedError)), None):
                raise refusal
            raise UnreachableError(queues[0].broker_name, "the end of its queues can't be read")
        return [(mq, master_of(route, mq.broker_name)) for mq in chosen]

    async def _free_queues(self, route: TopicRoute) -> list[MessageQueue]:
        queues = writable_queues(route)
        if not queues:
            sentence = f"Topic {route.topic} has no queue that can be written to."
            raise RefusedError(sentence, hint="rmqctl topic status shows why.")
        if not self._target.is_retry:
            return list(queues)
        names = {mq.broker_name for mq in queues}
        hindered = await self._guard.find_hindrances([each for each in route.brokers if each.broker_name in names])
        if names <= hindered.keys():
            hint = "--to-origin and --to-topic are not affected; all groups of the topic consume what they send."
            raise RefusedError(explain(hindered.items(), self._group), hint=hint)
        return [mq for mq in queues if mq.broker_name not in hindered]

    def next_turn(self) -> None:
        """Begin to send once more. Brokers that failed in the turn before are tried again where all did."""
        self._turn += 1
        self._failed = {key: turn for key, turn in self._failed.items() if turn >= self._turn - 1}

    def failed(self, topic: str, broker_name: str) -> None:
        """Note that a broker did not take a message of a topic in this turn."""
        self._failed[topic, broker_name] = self._turn

    def is_failing(self, topic: str, broker_name: str) -> bool:
        """Tell whether a broker did not take a message of a topic in this turn."""
        return self._failed.get((topic, broker_name)) == self._turn

    def stored(self, mq: MessageQueue, next_offset: int) -> None:
        """Note up to where a queue holds what was sent."""
        self.ends[mq] = max(self.ends.get(mq, 0), next_offset)

    async def _find_ends(self, route: TopicRoute, queues: Iterable[MessageQueue]) -> list[RmqctlError]:
        """Read where queues end. Returns why of those that can't be read."""

        async def fetch(mq: MessageQueue) -> int:
            request = headers.get_max_offset(mq.topic, mq.queue_id)
            return headers.int_field(await self._client.ask(master_of(route, mq.broker_name), request), "offset")

        answers = await ask_all(queues, fetch)
        self.ends.update(answers.ok)
        return list(answers.failed.values())

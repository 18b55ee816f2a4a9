"""A group as a change finds it: its queues, its clients, and what a running one tells beside."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.model.group import CONSUME_POP, GroupConfig
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, Strategy, sort_client_ids, sort_queues
from rmqctl.rules.allocate.averagely import allocate_averagely

# MessageQueue.queueId is an int.
ID_LIMIT = 2**31


class Member(Struct, frozen=True):
    """A client of a running group by its own word. `held` are its queues; `strategy` is None where it names none.

    `topics` are those that it subscribes to, None where it does not say; `pops`: it has popped messages.
    """

    held: frozenset[MessageQueue]
    strategy: str | None
    topics: frozenset[str] | None
    is_orderly: bool | None
    pops: bool = False

    def may_want(self, topic: str) -> bool:
        """Tell whether it subscribes to a topic, as far as it says."""
        return self.topics is None or topic in self.topics


class LiveGroup(Struct, frozen=True):
    """What a running group tells.

    `members` are those that answered, by client id, `silent` the ids of the others. `put_rates` are messages a second
    that came while it was measured, None where nothing was; `views` the client ids that each broker names,
    `silent_brokers` those that did not answer. `unseen_reason` says why there may be members although nobody is seen.
    `pop_share_count` is how many more clients a queue is popped by (popShareQueueNum), None where brokers differ in it
    or nobody pops. `hidden` is why there may be queues that nobody knows of.
    """

    group: str
    members: Mapping[str, Member]
    silent: tuple[str, ...]
    views: Mapping[str, tuple[str, ...]]
    progress: Mapping[MessageQueue, QueueProgress]
    put_rates: Mapping[MessageQueue, float] | None
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    configs: Mapping[str, GroupConfig | None]
    silent_brokers: tuple[str, ...] = ()
    unseen_reason: Unknown | None = None
    pop_share_count: int | None = None
    hidden: Unknown | None = None

    @property
    def is_popping(self) -> bool:
        """Whether members pop, so that brokers share the queues among them."""
        return self.consume_type == CONSUME_POP or any(member.pops for member in self.members.values())

    def is_wanted(self, topic: str) -> bool:
        """Tell whether any member subscribes to a topic, as far as they say."""
        return any(member.may_want(topic) for member in self.members.values())

    def takes(self, client_id: str, topic: str) -> bool:
        """Tell whether a client consumes its share of a topic; one that is new or silent may."""
        member = self.members.get(client_id)
        return member is None or member.may_want(topic)

    @property
    def strategies(self) -> frozenset[str]:
        """What members say that they share by; nothing where brokers share for them."""
        if self.is_popping:
            return frozenset()
        return frozenset(member.strategy for member in self.members.values() if member.strategy is not None)


class Scene(Struct, frozen=True):
    """Queues and clients to share them. Ids may stand twice, as they do where two clients have one id.

    `strangers` are, by topic, clients that no broker of the topic names: they have no part in its queues.
    """

    queues: tuple[MessageQueue, ...]
    client_ids: tuple[str, ...]
    live: LiveGroup | None = None
    strangers: Mapping[str, frozenset[str]] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the queues, in order."""
        return tuple(dict.fromkeys(queue.topic for queue in sort_queues(self.queues)))


def share_all(scene: Scene, strategy: Strategy) -> Assignment:
    """Let a strategy share a group's queues, topic by topic, as clients do (RebalanceImpl). Raises AllocationError.

    Every topic is shared among all clients that its brokers name, whether or not they subscribe to it.
    """
    client_ids = sort_client_ids(scene.client_ids)
    by_topic: dict[str, list[MessageQueue]] = {}
    for queue in sort_queues(scene.queues):
        by_topic.setdefault(queue.topic, []).append(queue)
    whole: Assignment = {client_id: [] for client_id in client_ids}
    # Without any queue the strategy says so.
    for topic, queues in by_topic.items() or [("", [])]:
        strangers = scene.strangers.get(topic, frozenset())
        own = [client_id for client_id in client_ids if client_id not in strangers] if strangers else client_ids
        if strangers and not own:
            continue  # those that its brokers name have all gone
        # Brokers let nobody pop from a retry topic (QueryAssignmentProcessor.doLoadBalance).
        is_pulled = strategy.name == "pop-share" and topic.startswith(RETRY_PREFIX)
        allocate = allocate_averagely if is_pulled else strategy.allocate
        for client_id, share in allocate(queues, own).items():
            whole.setdefault(client_id, []).extend(share)
    if len(by_topic) > 1 and strategy.may_repeat:
        # Those by configuration are the same for every topic, and a client takes each once.
        return {client_id: list(dict.fromkeys(share)) for client_id, share in whole.items()}
    return whole


def consumed_part(scene: Scene, assignment: Assignment) -> Assignment:
    """Return the shares without queues of topics that their clients do not subscribe to: no client consumes those.

    A client counts in every topic of its group, and takes nothing of those that it did not subscribe to
    (RebalanceImpl.doRebalance goes over its own subscriptions). A topic that no member subscribes to stays as it was
    shared: it is tried out before anybody does.
    """
    live = scene.live
    if live is None:
        return assignment
    topics = {topic for topic in scene.topics if live.is_wanted(topic) and not topic.startswith(RETRY_PREFIX)}
    return {
        client_id: [mq for mq in share if mq.topic not in topics or live.takes(client_id, mq.topic)]
        for client_id, share in assignment.items()
    }

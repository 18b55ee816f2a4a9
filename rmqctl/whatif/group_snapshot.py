"""A group before a change: its queues, its clients, and further facts of a running one."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.model.group import CONSUME_POP, GroupConfig, Member
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, Strategy, sort_client_ids, sort_queues
from rmqctl.rules.allocate.averagely import allocate_averagely

# MessageQueue.queueId is an int.
ID_LIMIT = 2**31


class SnapshotMember(Struct, frozen=True):
    """A client of a running group by its own report. `held` are its queues.

    An unreported `strategy` or list of subscribed `topics` has the value None. `popped` are those that it
    pops; queue -1 is all that a broker has of a topic. Both `pops` and `pulls` may be true, for different topics.
    `consume_rt_ms` is the average time of its listener in the last minute, None if it consumed nothing.
    """

    held: frozenset[MessageQueue]
    strategy: str | None
    topics: frozenset[str] | None
    is_orderly: bool | None
    pops: bool = False
    pulls: bool = True
    popped: frozenset[MessageQueue] = frozenset()
    consume_rt_ms: float | None = None

    @property
    def pulled(self) -> frozenset[MessageQueue]:
        """The queues that the client pulls."""
        return self.held - self.popped

    def may_pull(self, topic: str) -> bool:
        """Tell whether the client may subscribe to a topic, and does not pop from it."""
        return self.may_want(topic) and all(mq.topic != topic for mq in self.popped)

    def may_want(self, topic: str) -> bool:
        """Tell whether the client subscribes to a topic, or may, if it does not report its topics."""
        return self.topics is None or topic in self.topics


class LiveGroup(Struct, frozen=True):
    """The facts about a running group.

    `members` are those that answered, by client id, `silent` the ids of the others. `put_rates` are the arriving
    messages per second, None when they were not measured. `views` are the client ids that each broker lists,
    `silent_brokers` the brokers that did not answer. `unseen_reason` says why the group may have members although none
    is visible. `pop_share_count` is how many further clients pop each queue (popShareQueueNum), None when brokers
    differ or the group does not pop. `hidden` says why there may be unknown queues. `connections` has one connection of
    each client id.
    """

    group: str
    members: Mapping[str, SnapshotMember]
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
    connections: Mapping[str, Member] = {}

    @property
    def is_popping(self) -> bool:
        """Whether all members pop, as far as they report it, so that brokers allocate the queues."""
        if any(member.pulls for member in self.members.values()):
            return False
        return self.consume_type == CONSUME_POP or any(member.pops for member in self.members.values())

    def is_wanted(self, topic: str) -> bool:
        """Tell whether any member subscribes to a topic, or may, if it does not report its topics."""
        return any(member.may_want(topic) for member in self.members.values())

    def takes(self, client_id: str, topic: str) -> bool:
        """Tell whether a client consumes its share of a topic; a new or silent client may."""
        member = self.members.get(client_id)
        return member is None or member.may_want(topic)

    @property
    def strategies(self) -> frozenset[str]:
        """The strategies of members that pull; brokers allocate queues for the others."""
        return frozenset(
            member.strategy for member in self.members.values() if member.pulls and member.strategy is not None
        )


class GroupSnapshot(Struct, frozen=True):
    """Queues, and the clients to which they are allocated. Ids are duplicated when two clients have the same id.

    `strangers` are, by topic, clients that no broker of the topic lists: they get none of its queues.
    """

    queues: tuple[MessageQueue, ...]
    client_ids: tuple[str, ...]
    live: LiveGroup | None = None
    strangers: Mapping[str, frozenset[str]] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the queues, in order."""
        return tuple(dict.fromkeys(queue.topic for queue in sort_queues(self.queues)))


def share_all(snapshot: GroupSnapshot, strategy: Strategy) -> Assignment:
    """Allocate a group's queues with a strategy, topic by topic, as clients do (RebalanceImpl). Raises AllocationError.

    Every topic is allocated to all clients that its brokers list, whether or not they subscribe to it.
    """
    client_ids = sort_client_ids(snapshot.client_ids)
    by_topic: dict[str, list[MessageQueue]] = {}
    for queue in sort_queues(snapshot.queues):
        by_topic.setdefault(queue.topic, []).append(queue)
    whole: Assignment = {client_id: [] for client_id in client_ids}
    # Without queues the strategy raises its own error.
    for topic, queues in by_topic.items() or [("", [])]:
        strangers = snapshot.strangers.get(topic, frozenset())
        own = [client_id for client_id in client_ids if client_id not in strangers] if strangers else client_ids
        if strangers and not own:
            continue  # all clients that its brokers listed have left
        # Brokers do not allow pops from a retry topic (QueryAssignmentProcessor.doLoadBalance).
        is_pulled = strategy.name == "pop-share" and topic.startswith(RETRY_PREFIX)
        allocate = allocate_averagely if is_pulled else strategy.allocate
        for client_id, share in allocate(queues, own).items():
            whole.setdefault(client_id, []).extend(share)
    if len(by_topic) > 1 and strategy.may_repeat:
        # Configured queues are the same for every topic, so each counts once per client.
        return {client_id: list(dict.fromkeys(share)) for client_id, share in whole.items()}
    return whole


def consumed_part(snapshot: GroupSnapshot, assignment: Assignment) -> Assignment:
    """Return the shares without queues of topics that their owners do not subscribe to: those are not consumed.

    A client counts in every topic of its group, but holds no queues of topics that it does not subscribe to
    (RebalanceImpl.doRebalance iterates over its own subscriptions). A topic without any subscription keeps its
    allocation, so that it can be tried out in advance.
    """
    live = snapshot.live
    if live is None:
        return assignment
    topics = {topic for topic in snapshot.topics if live.is_wanted(topic) and not topic.startswith(RETRY_PREFIX)}
    return {
        client_id: [mq for mq in share if mq.topic not in topics or live.takes(client_id, mq.topic)]
        for client_id, share in assignment.items()
    }

"""What an owner of a group should look at, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rmqctl.cli.output.listing import Item
from rmqctl.cli.output.unreadable import unreadable_sentences
from rmqctl.model.group import BROADCASTING, GroupState
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.rules.member_settings import NO_LIMIT, retry_limit
from rmqctl.rules.words import counted, listed

_PUSH = "CONSUME_PASSIVELY"  # ConsumeType


def find_attention(item: Item, read_only_brokers: Collection[str] = ()) -> list[str]:
    """Return the sentences for one group's item of `group describe`."""
    return [
        *_members(item),
        *_settings(item["members"]),
        *(
            f"Brokers and members do not agree on the subscription of {topic}: messages may be lost."
            for topic in sorted({each["topic"] for each in item["subscriptions"] if each["agrees"] is False})
        ),
        *_configs(item["configs"], read_only_brokers),
        *(sentence for topic in item["topics"] for sentence in _topic(item, topic)),
        *_rest(item),
    ]


def _members(item: Item) -> Iterator[str]:
    for member in item["members"]:
        if member["unseenAt"]:
            yield f"{member['clientId']} is not seen by {', '.join(member['unseenAt'])}."
        if member["isIdShared"]:
            yield (
                f"{member['clientId']} has several connections to one broker: clients share the id, "
                "or a lost connection still counts there."
            )
    for key, what in (("messageModel", "modes"), ("consumeType", "ways")):
        told = sorted({member[key] for member in item["members"] if member[key]})
        if len(told) > 1:
            yield f"Members consume in different {what}: {', '.join(told)}."
    if len(item["strategies"]) > 1:
        yield f"Members share queues in different ways: {', '.join(item['strategies'])}."
    orderly = {member["clientId"]: member["isOrderly"] for member in item["members"] if member["isOrderly"] is not None}
    if len(set(orderly.values())) > 1:
        in_order = listed(client_id for client_id, is_orderly in orderly.items() if is_orderly)
        yield (
            f"Only some members consume in order: {in_order}. While they hold a queue's lock, "
            "brokers from 5.1.1 make dead letters of the others' retries."
        )
    idle = [member["clientId"] for member in item["members"] if _is_idle(member)]
    if idle:
        has = "holds" if len(idle) == 1 else "hold"
        yield f"{len(idle)} of {counted(len(item['members']), 'member')} {has} no queue: {listed(idle)}."


def _is_idle(member: Item) -> bool:
    """Tell a member that answered and holds nothing but retry queues.

    Only push consumers report all that they hold; those that broadcast hold every queue at once.
    """
    queues = member["queues"]
    if queues is None or member["consumeType"] != _PUSH or member["messageModel"] == BROADCASTING:
        return False
    return all(queue.startswith(RETRY_PREFIX) for queue in queues)


def _settings(members: Iterable[Item]) -> Iterator[str]:
    """Find settings in which members differ: how the group behaves then depends on who holds a queue."""
    each = list(members)
    for what, key, words in (
        ("start positions", "consumeFromWhere", str),
        ("consume timeouts", "consumeTimeoutMs", lambda timeout_ms: f"{timeout_ms / 60_000:g} min"),
    ):
        told = by_value((member["clientId"], member[key]) for member in each)
        if len(told) > 1:
            yield f"Members have different {what}: {_held_by(told, words)}."
    limits = by_value((member["clientId"], limit_of(member)) for member in each)
    if len(limits) > 1:
        yield f"Members have different retry limits: {_held_by(limits, limit_words)}."


def limit_of(member: Item) -> int | None:
    """Return how often a push member has a message redelivered, None where that is not known or does not apply."""
    if member["consumeType"] != _PUSH:
        return None
    return retry_limit(member["maxReconsumeTimes"], is_orderly=member["isOrderly"])


def limit_words(limit: int) -> str:
    """Return a retry limit in words."""
    return "no limit" if limit == NO_LIMIT else str(limit)


def by_value(told: Iterable[tuple[str, Any]]) -> dict[Any, list[str]]:
    """Return who has each value, sorted by value; unknown ones left out."""
    holders: dict[Any, list[str]] = {}
    for client_id, value in told:
        if value is not None:
            holders.setdefault(value, []).append(client_id)
    return dict(sorted(holders.items()))


def _held_by(holders: Mapping[Any, list[str]], words: Any) -> str:
    return ", ".join(f"{words(value)} ({listed(client_ids)})" for value, client_ids in holders.items())


def _configs(configs: list[dict[str, Any]], read_only_brokers: Collection[str]) -> Iterator[str]:
    differing = sorted({name for config in configs for name in config["differingFields"]})
    if differing:
        yield f"Brokers have different settings: {', '.join(differing)}."
    for config in configs:
        name = config["brokerName"]
        if not config["isConfigured"]:
            yield f"{name} has no configuration of this group."
        if config["consumeEnable"] is False:
            yield f"{name} refuses pulls of this group (consumeEnable=false)."
        if config["retryQueueNums"] is not None and config["retryQueueNums"] <= 0:
            if name in read_only_brokers:
                yield f"{name} has no retry queue for it and is read-only: a message that fails blocks its queue."
            else:
                yield f"{name} has no retry queue for it: failed messages are acknowledged and lost."
        if config["forbiddenTopics"]:
            yield f"{name} forbids it to read {', '.join(config['forbiddenTopics'])}."


def _topic(item: Item, topic: Item) -> Iterator[str]:
    name, total = topic["topic"], topic["queueCount"]
    unowned = 0 if topic["ownedQueueCount"] is None else total - topic["ownedQueueCount"]
    is_shared_out = item["state"] == GroupState.ONLINE and item["messageModel"] != BROADCASTING
    if is_shared_out and unowned:
        yield f"{unowned} of {total} queues of {name} have no owner."
    if is_shared_out and topic["sharedQueueCount"]:
        count = topic["sharedQueueCount"]
        yield f"{count} of {total} queues of {name} are held by several members: each consumes all of their messages."
    if topic["beyondMaxQueueCount"]:
        queues = counted(topic["beyondMaxQueueCount"], "queue")
        yield f"The offset is beyond the end of {queues} of {name}: clients restart there from an offset of their own."
    if topic["lostAtLeast"]:
        count = str(topic["lost"] or f"At least {topic['lostAtLeast']}")
        yield f"{count} messages of {name} were deleted before the group read them."


def _rest(item: Item) -> Iterator[str]:
    yield from unreadable_sentences(item["unreadableQueues"])
    if item["leftoverOffsets"]:
        queues = [f"{each['topic']}@{each['brokerName']}:{each['queueId']}" for each in item["leftoverOffsets"]]
        if len(queues) == 1:
            yield f"An offset is stored of a queue that does not exist: {queues[0]}."
        else:
            yield f"Offsets are stored of {len(queues)} queues that do not exist: {listed(queues)}."
    if item["popUnackedCount"]:
        count = counted(item["popUnackedCount"], "message")
        yield f"{count} popped and not acknowledged: LAG does not count them."
    if item["deadLetterCount"]:
        yield f"{item['deadLetterCount']} dead letters are kept."

"""The consequences of a change of a topic: what brokers and name servers do, and what groups lose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import find_route
from rmqctl.changes.configs.lookup import FoundConfig
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.names import pop_retry_topics
from rmqctl.model.plan import ConfigItem, Consequence
from rmqctl.model.route import BrokerData
from rmqctl.model.topic import WRITE
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.topics import own_topics
from rmqctl.text.words import listed

from .losses import Losses, find_losses
from .readers import read_offsets
from .rules.effects import deleted_items, describe_own, describe_settings

COMES_AGAIN = "COMES_AGAIN"
_SHOWN = 10


class _Settings(Struct, frozen=True):
    """A broker's release, and the settings that matter when a topic is deleted."""

    is_5: bool
    creates_topics: bool
    deletes_pop_retries: bool
    name_servers: tuple[str, ...]


async def find_effects(
    client: Client, topic: str, found: FoundConfig, items: Sequence[ConfigItem]
) -> tuple[list[Consequence], tuple[Failure, ...]]:
    """Return the consequences of a change of a topic, and what could not be read for them."""
    own = own_topics(await client.cluster())
    losses = await find_losses(client, topic, items, found.brokers)
    consequences = [
        *describe_own(topic, own),
        *describe_settings(items),
        *losses.consequences,
        *_readers(losses, items),
        *await _describe_deletion(client, topic, losses, found.brokers, deleted_items(items)),
        *await _old_offsets(client, topic, found.brokers, items),
    ]
    if items and found.others and not deleted_items(items):
        consequences.append(
            Consequence("OTHER_BROKERS", f"The topic is not changed at {listed(found.others, _SHOWN)}.")
        )
    return consequences, losses.failures


def _readers(losses: Losses, items: Sequence[ConfigItem]) -> Iterator[Consequence]:
    if not losses.reading:
        return
    text = f"Groups with members that read the topic: {listed(sorted(losses.reading), _SHOWN)}."
    if deleted_items(items):
        text += (
            " A running member keeps its positions: if the topic is created again, it skips the first messages. "
            "Restart such members."
        )
    yield Consequence("READERS", text)


async def _describe_deletion(
    client: Client, topic: str, losses: Losses, brokers: Mapping[str, BrokerData], deleted: Sequence[ConfigItem]
) -> list[Consequence]:
    """Return what brokers and name servers do about a topic that is deleted at these brokers."""
    names = [item.broker_name for item in deleted]
    if not names:
        return []
    answers = await ask_all(names, lambda name: _fetch_settings(client, brokers[name]))
    topics = await client.topic_names() if losses.groups else ()
    found = [*_deletion(client, topic, losses, answers.ok, topics), *_unread_settings(sorted(answers.failed))]
    route = await find_route(client, topic)
    kept = sorted({data.broker_name for data in route.queue_data if data.perm} - set(names)) if route else []
    if kept:
        found = [each for each in found if each.code != COMES_AGAIN]
        writable = [item.broker_name for item in deleted if item.before and item.before["perm"] & WRITE]
        if again := sorted(name for name in writable if name not in answers.ok or answers.ok[name].creates_topics):
            text = (
                f"Producers use their old routes for up to 30 s: one that sends to {listed(again, _SHOWN)} meanwhile "
                f"creates the topic there again. First stop sends (rmqctl topic update {topic} --perm r, with the "
                "same --broker), and wait 30 s."
            )
            found.append(Consequence(COMES_AGAIN, text))
        text = (
            f"The topic is kept at {listed(kept, _SHOWN)}: its route lists {listed(names, _SHOWN)} without permissions."
        )
        found.append(Consequence("KEPT_ELSEWHERE", text))
    return found


def _deletion(
    client: Client, topic: str, losses: Losses, settings: Mapping[str, _Settings], topics: Sequence[str]
) -> Iterator[Consequence]:
    groups = listed(sorted(losses.groups), _SHOWN)
    if groups and any(each.is_5 for each in settings.values()):
        yield Consequence("OFFSETS_GO", f"Offsets of the topic are deleted as well, of {groups}.")
    if groups and any(not each.is_5 for each in settings.values()):
        text = (
            f"Offsets of the topic are kept, of {groups}: if it is created again, these groups start from them. "
            "rmqctl offset delete GROUP --topic TOPIC deletes them."
        )
        yield Consequence("OFFSETS_STAY", text)
    retries = sorted({each for group in losses.groups for each in pop_retry_topics(group, topic)} & set(topics))
    if retries and any(each.deletes_pop_retries for each in settings.values()):
        text = f"Deleted as well, with their messages: the retry topics of popping clients, {listed(retries, _SHOWN)}."
        yield Consequence("RETRIES_GO", text)
    if creating := sorted(name for name, each in settings.items() if each.creates_topics):
        text = (
            f"The next producer that sends to the topic creates it again, with defaults, at {listed(creating, _SHOWN)} "
            "(autoCreateTopicEnable). Stop producers first."
        )
        yield Consequence(COMES_AGAIN, text)
    others = sorted({address for each in settings.values() for address in each.name_servers} - set(client.name_servers))
    if others:
        text = (
            f"Brokers also register with {listed(others, _SHOWN)}, which this command does not ask: unless these are "
            "other names of the same servers, they keep the route. Name them all with -n."
        )
        yield Consequence("OTHER_NAME_SERVERS", text)


def _unread_settings(names: Sequence[str]) -> Iterator[Consequence]:
    if names:
        text = f"The settings of {listed(names, _SHOWN)} could not be read: they may create the topic again."
        yield Consequence("SETTINGS_UNREAD", text)


async def _fetch_settings(client: Client, broker: BrokerData) -> _Settings:
    answer = await client.ask(client.require_master(broker), headers.get_broker_config())
    settings = bodies.decode_properties_text(answer.body)
    is_5 = answer.version >= V5_0_0
    return _Settings(
        is_5=is_5,
        creates_topics=settings.get("autoCreateTopicEnable") != "false",
        deletes_pop_retries=is_5 and settings.get("clearRetryTopicWhenDeleteTopic") != "false",
        name_servers=tuple(each.strip() for each in settings.get("namesrvAddr", "").split(";") if each.strip()),
    )


async def _old_offsets(
    client: Client, topic: str, brokers: Mapping[str, BrokerData], items: Sequence[ConfigItem]
) -> list[Consequence]:
    """Return the groups with offsets of an earlier topic of this name, where it is created now."""
    names = [item.broker_name for item in items if item.before is None and item.target is not None]
    if not names:
        return []
    groups, failures = await read_offsets(client, topic, {name: brokers[name] for name in names})
    found = []
    if groups:
        text = (
            f"Offsets of an earlier topic of this name are stored, of {listed(sorted(groups), _SHOWN)}: these groups "
            "skip the first messages. rmqctl offset delete GROUP --topic TOPIC deletes them."
        )
        found.append(Consequence("OFFSETS_THERE", text))
    if failures:
        where = listed(sorted({failure.broker_name or "" for failure in failures}), _SHOWN)
        text = f"Stored offsets at {where} could not be read: groups may have some of an earlier topic of this name."
        found.append(Consequence("OFFSETS_UNREAD", text))
    return found

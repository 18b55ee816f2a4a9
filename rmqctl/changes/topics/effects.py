"""The consequences of a change of a topic: what brokers and name servers do, and what groups lose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rmqctl.admin.brokers.cluster import MasterSettings, read_settings
from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import find_route
from rmqctl.changes.configs.lookup import FoundConfig
from rmqctl.changes.configs.settings import describe_other_name_servers
from rmqctl.changes.configs.topic_routes import offering_brokers
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.model.names import pop_retry_topics
from rmqctl.model.plan import ConfigItem, Consequence
from rmqctl.model.route import BrokerData
from rmqctl.model.topic import WRITE
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.topics import own_topics
from rmqctl.text.words import listed

from .losses import Losses, find_losses
from .readers import read_offsets
from .rules.effects import describe_own, describe_settings

_SHOWN = 10


async def find_effects(
    client: Client, topic: str, found: FoundConfig, items: Sequence[ConfigItem]
) -> tuple[list[Consequence], tuple[Failure, ...]]:
    """Return the consequences of a change of a topic, and what could not be read for them."""
    own = own_topics(await client.cluster())
    deleted = [item for item in items if item.is_deletion]
    losses = await find_losses(client, topic, items, found.brokers)
    consequences = [
        *describe_own(topic, own),
        *describe_settings(items),
        *losses.consequences,
        *_readers(losses, is_deletion=bool(deleted)),
        *await _describe_deletion(client, topic, losses, found.brokers, deleted),
        *await _old_offsets(client, topic, found.brokers, items),
    ]
    if items and found.others and not deleted:
        consequences.append(
            Consequence("OTHER_BROKERS", f"The topic is not changed at {listed(found.others, _SHOWN)}.")
        )
    return consequences, losses.failures


def _readers(losses: Losses, *, is_deletion: bool) -> Iterator[Consequence]:
    if not losses.reading:
        return
    text = f"Groups with members that read the topic: {listed(sorted(losses.reading), _SHOWN)}."
    if is_deletion:
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
    answers = await ask_all(names, lambda name: read_settings(client, brokers[name]))
    settings = answers.ok
    topics = await client.topic_names() if losses.groups else ()
    kept = offering_brokers(await find_route(client, topic), names)
    return [
        *_offsets(losses.groups, settings),
        *_pop_retries(topic, losses.groups, settings, topics),
        *(_kept(topic, kept, deleted, settings) if kept else _comes_again(settings)),
        *describe_other_name_servers(
            (each.values.get("namesrvAddr", "") for each in settings.values()),
            client.name_servers,
            "they keep the route",
        ),
        *_unread_settings(sorted(answers.failed)),
    ]


def _offsets(groups: Collection[str], settings: Mapping[str, MasterSettings]) -> Iterator[Consequence]:
    if not groups:
        return
    names = listed(sorted(groups), _SHOWN)
    if any(_is_5(each) for each in settings.values()):
        yield Consequence("OFFSETS_GO", f"Offsets of the topic are deleted as well, of {names}.")
    if any(not _is_5(each) for each in settings.values()):
        text = (
            f"Offsets of the topic are kept, of {names}: if it is created again, these groups start from them. "
            "rmqctl offset delete GROUP --topic TOPIC deletes them."
        )
        yield Consequence("OFFSETS_STAY", text)


def _pop_retries(
    topic: str, groups: Collection[str], settings: Mapping[str, MasterSettings], topics: Collection[str]
) -> Iterator[Consequence]:
    retries = sorted({each for group in groups for each in pop_retry_topics(group, topic)} & set(topics))
    deletes = any(
        _is_5(each) and each.values.get("clearRetryTopicWhenDeleteTopic") != "false" for each in settings.values()
    )
    if retries and deletes:
        text = f"Deleted as well, with their messages: the retry topics of popping clients, {listed(retries, _SHOWN)}."
        yield Consequence("RETRIES_GO", text)


def _comes_again(settings: Mapping[str, MasterSettings]) -> Iterator[Consequence]:
    """Yield who creates a topic again that no broker is left with."""
    creating = sorted(name for name, each in settings.items() if _creates_topics(each))
    if creating:
        text = (
            f"The next producer that sends to the topic creates it again, with defaults, at {listed(creating, _SHOWN)} "
            "(autoCreateTopicEnable). Stop producers first."
        )
        yield Consequence("COMES_AGAIN", text)


def _kept(
    topic: str, kept: Sequence[str], deleted: Sequence[ConfigItem], settings: Mapping[str, MasterSettings]
) -> Iterator[Consequence]:
    """Yield that other brokers keep the topic, and who creates it again where it is deleted."""
    creating = sorted(
        item.broker_name
        for item in deleted
        if item.before is not None
        and item.before["perm"] & WRITE
        and (item.broker_name not in settings or _creates_topics(settings[item.broker_name]))
    )
    if creating:
        text = (
            f"Producers use their old routes for up to 30 s: one that sends to {listed(creating, _SHOWN)} meanwhile "
            f"creates the topic there again. First stop sends (rmqctl topic update {topic} --perm r, with the "
            "same --broker), and wait 30 s."
        )
        yield Consequence("COMES_AGAIN", text)
    names = listed([item.broker_name for item in deleted], _SHOWN)
    text = f"The topic is kept at {listed(kept, _SHOWN)}: its route lists {names} without permissions."
    yield Consequence("KEPT_ELSEWHERE", text)


def _is_5(settings: MasterSettings) -> bool:
    return settings.version >= V5_0_0


def _creates_topics(settings: MasterSettings) -> bool:
    return settings.values.get("autoCreateTopicEnable") != "false"


def _unread_settings(names: Sequence[str]) -> Iterator[Consequence]:
    if names:
        text = f"The settings of {listed(names, _SHOWN)} could not be read: they may create the topic again."
        yield Consequence("SETTINGS_UNREAD", text)


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

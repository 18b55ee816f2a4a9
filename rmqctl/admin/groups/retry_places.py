"""Read where a group's failed messages can be sent back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rmqctl.admin.brokers.cluster import settings_once
from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import find_route
from rmqctl.client.core import Client
from rmqctl.model.group import GroupConfig
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.rules.broker_config import may_write
from rmqctl.rules.retry_places import RetryPlace


async def fetch_retry_places(client: Client, group: str, brokers: Mapping[str, BrokerData]) -> dict[str, RetryPlace]:
    """Return each broker as a destination of a group's failed messages, with None for unreported facts.

    Reads each broker's configuration and that of its groups (once for all groups), and the retry topic's route.
    """
    settings, groups, route = await asyncio.gather(
        ask_all(brokers, lambda name: settings_once(client, brokers[name])),
        fetch_configs(client, brokers),
        find_route(client, RETRY_PREFIX + group),
    )
    return {
        name: _place(broker, settings.ok.get(name), groups.ok.get(name), route, group)
        for name, broker in brokers.items()
    }


def _place(
    broker: BrokerData,
    settings: Mapping[str, str] | None,
    groups: Mapping[str, GroupConfig] | None,
    route: TopicRoute | None,
    group: str,
) -> RetryPlace:
    makes = (settings or {}).get("autoCreateSubscriptionGroup")
    config = None if groups is None else groups.get(group)
    data = None
    if route is not None:
        data = next((each for each in route.queue_data if each.broker_name == broker.broker_name), None)
    return RetryPlace(
        has_master=broker.master_address is not None,
        is_writable=may_write(settings or {}),
        is_group_known=None if groups is None else config is not None,
        makes_groups=None if makes is None else makes.lower() == "true",
        retry_queue_count=None if config is None else config.retry_queue_count,
        is_topic_writable=None if data is None else data.is_writable,
    )

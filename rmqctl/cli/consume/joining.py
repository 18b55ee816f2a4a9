"""What `consume run` finds out about its group when it joins."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from rmqctl.admin.groups.config import read_configs
from rmqctl.errors import RmqctlError

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.model.group import GroupConfig
    from rmqctl.model.route import BrokerData


async def find_group_faults(client: Client, brokers: Collection[BrokerData], group: str) -> tuple[set[str], set[str]]:
    """Return sentences about configurations by which a group loses messages or gets none, and about unknown ones.

    A broker without a configuration makes one when a member joins, or refuses the member.
    """
    brokers = list(brokers)
    answers = await asyncio.gather(*(read_configs(client, each) for each in brokers), return_exceptions=True)
    faults: set[str] = set()
    unknown: set[str] = set()
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, RmqctlError):
            unknown.add(f"The configuration of the group at {broker.broker_name} is unknown: {answer.sentence}")
        elif isinstance(answer, BaseException):
            raise answer
        elif (config := answer.get(group)) is not None:
            faults.update(_faults_of(config, broker.broker_name))
    return faults, unknown


def _faults_of(config: GroupConfig, broker_name: str) -> list[str]:
    found = []
    if config.retry_queue_count <= 0:
        found.append(
            f"{broker_name} loses messages of this group that fail: its retryQueueNums is {config.retry_queue_count}. "
            f"To change it: rmqctl group update {config.group} --retry-queues 1"
        )
    if not config.consume_enable:
        found.append(
            f"{broker_name} gives this group no messages: its consumeEnable is false. "
            f"To change it: rmqctl group update {config.group} --consume"
        )
    return found

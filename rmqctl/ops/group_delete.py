"""Plans the end of a group: its configuration, and with it its offsets where that is wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from rmqctl.admin.group_writes import makes_deleted_again
from rmqctl.admin.results import ask_all, failed_by_name, not_found
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import ConfigItem, Consequence, Operation, PlanItem, Route
from rmqctl.rules.group_names import require_no_system_group
from rmqctl.rules.names import closest
from rmqctl.rules.words import listed

from .group_found import FoundConfig, find_config, find_own_topics, new_config_plan
from .offset_plan import Planned
from .plan_parts import NOT_LOOKED_UP


async def plan_group_deletion(
    client: Client, group: str, broker_names: Collection[str], *, with_offsets: bool, assume_offline: bool, asked: str,
    reason: str | None,
) -> Planned:  # fmt: skip
    """Return the plan that takes a group away at these brokers, all without any.

    Raises UsageError for one of RocketMQ's own, NotFoundError for a group that there is not, RefusedError for one in
    which somebody is or may be, and what find_config raises.
    """
    require_no_system_group(group)
    found = await find_config(client, group, broker_names)
    _require_there(found, with_offsets=with_offsets)
    require_nobody(found, found.brokers, assume_offline=assume_offline)
    takes_offsets = with_offsets or await must_take_offsets(client, found)
    configs = [ConfigItem(name, fields, None) for name in found.brokers if (fields := found.fields(name)) is not None]
    items = deleted_offsets(found, found.brokers) if with_offsets else ()
    if with_offsets:
        named = {*(config.broker_name for config in configs), *(item.mq.broker_name for item in items)}
        note = "its entries stand for no offset"
        configs += [ConfigItem(name, None, None, note) for name in sorted(found.keeping - named)]
    plan = new_config_plan(
        client, found, Operation.GROUP_DELETE, configs, items,
        await describe_deletion(client, found, configs, with_offsets=with_offsets), asked=asked, reason=reason,
        takes_offsets=takes_offsets,
    )  # fmt: skip
    return Planned(plan, found.failures)


def deleted_offsets(found: FoundConfig, names: Iterable[str]) -> tuple[PlanItem, ...]:
    """Return the items of all offsets that go with a group at some brokers, so that they can be stored again."""
    return tuple(
        PlanItem(
            mq, before, None, Route.GROUP_CONFIG, reasons={**NOT_LOOKED_UP, "target": "NONE_STORED"}
        )
        for name in names
        for mq, before in found.offsets_at(name).items()
    )  # fmt: skip


async def must_take_offsets(client: Client, found: FoundConfig) -> bool:
    """Tell whether a group goes from its brokers only with its offsets, of which there are none.

    Raises RefusedError where there are some: they were not to go.
    """
    answers = await ask_all(
        [name for name in found.brokers if name in found.configs],
        lambda name: makes_deleted_again(client, found.brokers[name]),
    )
    making = [name for name, makes in answers.ok.items() if makes]
    if making and found.offsets:
        sentence = (
            f"{listed(making)} would make group {found.group} again at once, with the defaults: "
            "brokers of 5.5 do so when a group is deleted without its offsets."
        )
        hint = f"rmqctl group delete {found.group} --with-offsets deletes both."
        raise RefusedError(sentence, hint=hint)
    return bool(making)


def _require_there(found: FoundConfig, *, with_offsets: bool) -> None:
    group = found.group
    if any(group in table for table in found.tables.values()) or (with_offsets and found.keeping):
        return
    if found.keeping and not found.failures:
        sentence = f"Group {group} is not configured; only offsets are left of it."
        raise NotFoundError("Group", group).reworded(sentence, hint="--with-offsets takes those away.")
    names = {name for table in found.tables.values() for name in table}
    error = NotFoundError("Group", group, suggestions=closest(group, names))
    raise not_found(error, failed_by_name(found.failures))


def require_nobody(found: FoundConfig, names: Iterable[str], *, assume_offline: bool) -> None:
    """Raise RefusedError where somebody is connected at these brokers, or may be.

    A member that goes on makes the configuration again within seconds, with the defaults, and stores its offsets again.
    """
    client_ids = sorted({client_id for name in names for client_id in found.members.get(name, ())})
    if client_ids:
        more = f" and {len(client_ids) - 1} more" if len(client_ids) > 1 else ""
        sentence = (
            f"Group {found.group} has members ({client_ids[0]}{more}): they would bring it back within seconds, "
            "with the defaults and with their offsets."
        )
        raise RefusedError(sentence, hint="Stop them first.")
    if found.unseen is not None and not assume_offline:
        sentence = f"Whether group {found.group} has members is not known ({found.unseen}); they would bring it back."
        raise RefusedError(sentence, hint="If you know that nobody consumes, --assume-offline says so.")


async def describe_deletion(
    client: Client, found: FoundConfig, configs: Collection[ConfigItem], *, with_offsets: bool
) -> list[Consequence]:
    """Say what goes, and what stays behind."""
    return [*_said(found, configs, await find_own_topics(client, found), with_offsets=with_offsets)]


def _said(
    found: FoundConfig, configs: Collection[ConfigItem], topics: Mapping[str, Mapping[str, int]], *, with_offsets: bool
) -> Iterator[Consequence]:
    group, queues = found.group, found.queue_count()
    if configs:
        text = "A client that comes makes the group again, with the defaults (autoCreateSubscriptionGroup)."
        yield Consequence("COMES_AGAIN", text)
    if with_offsets:
        what = f"All of its offsets at {listed(sorted(found.brokers))}" if found.failures else "All of its offsets"
        yield Consequence("OFFSETS_GO", f"{what} go. Who comes begins as a new group (ConsumeFromWhere).")
    elif queues:
        text = f"Offsets of {queues} stay (--with-offsets takes them along): who comes goes on from there."
        yield Consequence("OFFSETS_STAY", text)
    if topics:
        yield Consequence("TOPICS_STAY", f"Left there, with their messages: {', '.join(sorted(topics))}.")
    forbidden = sorted({
        topic for table in found.tables.values() if group in table for topic in table[group].forbidden_topics
    })  # fmt: skip
    if forbidden:
        text = f"That it may not read {', '.join(forbidden)} goes as well, and an undo does not bring it back."
        yield Consequence("FORBIDDEN_GO", text)
    if found.others:
        yield Consequence("OTHER_BROKERS", f"What {', '.join(found.others)} has of it stays.")
    if found.state is GroupState.ONLINE:
        text = f"Members at {', '.join(sorted(found.members))} come to the others when a topic of theirs does."
        yield Consequence("MEMBERS_ELSEWHERE", text)
    if found.unseen is not None:
        yield Consequence("MEMBERS_UNSEEN", f"Whether there are members is not known ({found.unseen}).")

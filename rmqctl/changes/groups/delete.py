"""Plans the deletion of a group: its configuration, and its offsets if requested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from rmqctl.admin.groups.config import recreates_deleted_groups
from rmqctl.admin.results import ask_all, failed_by_name, not_found
from rmqctl.changes.configs.lookup import FoundConfig, find_config, find_own_topics, new_config_plan
from rmqctl.changes.plan_parts import NOT_LOOKED_UP, PlanReport
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import ConfigItem, Consequence, Operation, PlanItem, Route
from rmqctl.rules.group_state import why_unseen
from rmqctl.text.names import closest
from rmqctl.text.words import listed


async def plan_group_deletion(
    client: Client, group: str, broker_names: Collection[str], *, with_offsets: bool, assume_offline: bool, asked: str,
    reason: str | None,
) -> PlanReport:  # fmt: skip
    """Return the plan that deletes a group at these brokers; at all if none is named.

    Raises NotFoundError for a group that does not exist, RefusedError for a group that has or may have members, and
    what find_config raises.
    """
    found = await find_config(client, group, broker_names)
    _require_there(found, with_offsets=with_offsets)
    require_no_members(found, found.brokers, assume_offline=assume_offline)
    takes_offsets = with_offsets or await must_take_offsets(client, found)
    configs = [ConfigItem(name, fields, None) for name in found.brokers if (fields := found.fields(name)) is not None]
    items = deleted_offsets(found, found.brokers) if with_offsets else ()
    if with_offsets:
        named = {*(config.broker_name for config in configs), *(item.mq.broker_name for item in items)}
        note = "its entries contain no offset"
        configs += [ConfigItem(name, None, None, note) for name in sorted(found.keeping - named)]
    plan = new_config_plan(
        client, found, Operation.GROUP_DELETE, configs, items,
        await describe_deletion(client, found, configs, with_offsets=with_offsets), asked=asked, reason=reason,
        takes_offsets=takes_offsets,
    )  # fmt: skip
    return PlanReport(plan, found.failures)


def deleted_offsets(found: FoundConfig, names: Iterable[str]) -> tuple[PlanItem, ...]:
    """Return the items of all offsets that are deleted with a group at some brokers, so that they can be restored."""
    return tuple(
        PlanItem(
            mq, before, None, Route.GROUP_CONFIG, reasons={**NOT_LOOKED_UP, "target": "NONE_STORED"}
        )
        for name in names
        for mq, before in found.offsets_at(name).items()
    )  # fmt: skip


async def must_take_offsets(client: Client, found: FoundConfig) -> bool:
    """Return whether brokers delete the group only together with its offsets, although it has none.

    Raises RefusedError if it has offsets: their deletion was not requested.
    """
    answers = await ask_all(
        [name for name in found.brokers if name in found.configs],
        lambda name: recreates_deleted_groups(client, found.brokers[name]),
    )
    making = [name for name, makes in answers.ok.items() if makes]
    if making and found.offsets:
        sentence = (
            f"{listed(making)} would immediately create group {found.group} again, with the defaults: "
            "brokers of 5.5 do so when a group is deleted without its offsets."
        )
        hint = f"Delete both: rmqctl group delete {found.group} --with-offsets"
        raise RefusedError(sentence, hint=hint)
    return bool(making)


def _require_there(found: FoundConfig, *, with_offsets: bool) -> None:
    group = found.group
    if any(group in table for table in found.tables.values()) or (with_offsets and found.keeping):
        return
    if found.keeping and not found.failures:
        sentence = f"Group {group} is not configured; only its offsets are left."
        raise NotFoundError("Group", group).reworded(sentence, hint="Add --with-offsets to delete them.")
    names = {name for table in found.tables.values() for name in table}
    error = NotFoundError("Group", group, suggestions=closest(group, names))
    raise not_found(error, failed_by_name(found.failures))


def require_no_members(found: FoundConfig, names: Iterable[str], *, assume_offline: bool) -> None:
    """Raise RefusedError if the group has members at these brokers, or may have.

    A running member creates the configuration again within seconds, with the defaults, and commits its offsets again.
    """
    client_ids = sorted({client_id for name in names for client_id in found.members.get(name, ())})
    if client_ids:
        more = f" and {len(client_ids) - 1} more" if len(client_ids) > 1 else ""
        sentence = (
            f"Group {found.group} has members ({client_ids[0]}{more}): they would create it again within seconds, "
            "with the defaults and with their offsets."
        )
        raise RefusedError(sentence, hint="Stop them first.")
    if found.unseen is not None and not assume_offline:
        sentence = f"Group {found.group} may have members ({why_unseen(found.unseen)}); they would create it again."
        raise RefusedError(sentence, hint="If you know that the group has no members, add --assume-offline.")


async def describe_deletion(
    client: Client, found: FoundConfig, configs: Collection[ConfigItem], *, with_offsets: bool
) -> list[Consequence]:
    """Return what is deleted, and what is kept."""
    return [*_said(found, configs, await find_own_topics(client, found), with_offsets=with_offsets)]


def _said(
    found: FoundConfig, configs: Collection[ConfigItem], topics: Mapping[str, Mapping[str, int]], *, with_offsets: bool
) -> Iterator[Consequence]:
    group, queues = found.group, found.queue_count()
    if configs:
        text = "The next client creates the group again, with the defaults (autoCreateSubscriptionGroup)."
        yield Consequence("COMES_AGAIN", text)
    if with_offsets:
        what = f"All its offsets at {listed(sorted(found.brokers))}" if found.failures else "All its offsets"
        text = f"{what} are deleted. The next member starts as in a new group (ConsumeFromWhere)."
        yield Consequence("OFFSETS_GO", text)
    elif queues:
        text = f"Offsets of {queues} are kept: the next member resumes from them. Use --with-offsets to delete them."
        yield Consequence("OFFSETS_STAY", text)
    if topics:
        yield Consequence("TOPICS_STAY", f"Kept, with their messages: {', '.join(sorted(topics))}.")
    forbidden = sorted({
        topic for table in found.tables.values() if group in table for topic in table[group].forbidden_topics
    })  # fmt: skip
    if forbidden:
        text = f"The ban on reading {', '.join(forbidden)} is deleted as well; an undo does not restore it."
        yield Consequence("FORBIDDEN_GO", text)
    if found.others:
        yield Consequence("OTHER_BROKERS", f"The group is not changed at {', '.join(found.others)}.")
    if found.state is GroupState.ONLINE:
        text = (
            f"Members at {', '.join(sorted(found.members))} connect to the other brokers once one of their topics "
            "is there."
        )
        yield Consequence("MEMBERS_ELSEWHERE", text)
    if found.unseen is not None:
        yield Consequence("MEMBERS_UNSEEN", f"Whether the group has members is unknown ({why_unseen(found.unseen)}).")

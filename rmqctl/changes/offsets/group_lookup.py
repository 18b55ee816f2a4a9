"""A group as a change of its offsets finds it: its members, its stored offsets, and what each broker can do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import read_settings
from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.offsets.conclusion import conclude
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.offsets.reading import GroupProgress, GroupReading
from rmqctl.admin.offsets.retry_topics import find_retry_topics
from rmqctl.admin.results import all_failed, ask_all
from rmqctl.changes.offsets.rules.route import GroupSituation, is_unheard
from rmqctl.changes.plan_parts import GROUPS, WAITING, not_read
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_group_table
from rmqctl.errors import NotAuthorisedError, NotFoundError, NotRegisteredError, RefusedError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, GroupState, Proxies
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Consequence
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.cluster_memory import may_hold
from rmqctl.rules.group_state import agreed, group_state, reason_of, unheard, unseen_reason
from rmqctl.rules.lite_topics import bound_topic
from rmqctl.rules.member_settings import both_ways, pulled_queues
from rmqctl.rules.written_offsets import forgetful_members, is_free
from rmqctl.text.words import counted, listed

_SERVER_SIDE = "useServerSideResetOffset"


class FoundGroup(Struct, frozen=True):
    """A group as it was found, for a plan or for its check: rows by queue, brokers by name, what each can do.

    `known_topics` are those that brokers list for the group. `offsets` are the stored ones, None if none is stored; a
    queue whose offset could not be read is not in it. `unsettled` are brokers that did not report whether they reset by
    themselves. `filters` are the members' subscriptions, by topic; `unheard` are, in words, members that did not report
    theirs. `unreadable` counts the unread messages in queues that no consumer can read; a change leaves them alone.
    `places` are, by queue, the offsets at which the group may be: the stored one, and that of each member that holds
    the queue. Queues of which a member's position is unknown are not in it.
    """

    situation: GroupSituation
    rows: Mapping[MessageQueue, QueueProgress]
    known_topics: frozenset[str]
    offsets: Mapping[MessageQueue, int | None]
    brokers: Mapping[str, BrokerData]
    versions: Mapping[str, int]
    is_server_side: Mapping[str, bool]
    unsettled: Mapping[str, RmqctlError]
    client_ids: tuple[str, ...]
    read_queue_counts: Mapping[tuple[str, str], int]
    failures: tuple[Failure, ...]
    filters: Mapping[str, tuple[str, ...]]
    unheard: tuple[str, ...]
    unreadable: Mapping[MessageQueue, int] = {}
    places: Mapping[MessageQueue, tuple[int, ...]] = {}

    def require_settings(self, broker_names: Iterable[str]) -> None:
        """Raise the error of a broker that did not report how it resets, if the group may have members."""
        failed = [self.unsettled[name] for name in broker_names if name in self.unsettled]
        if failed and self.situation.state is not GroupState.EMPTY:
            raise all_failed(failed)

    def unread(self, broker_names: Iterable[str]) -> dict[str, RmqctlError]:
        """Return, by name, the brokers that were not read, or that did not report how they reset, and why."""
        failed = {failure.broker_name: failure.error for failure in reversed(self.failures)}
        unread: dict[str, RmqctlError] = {}
        for name in broker_names:
            if name not in self.brokers:
                unread[name] = failed.get(name) or not_read(name)
            elif name in self.unsettled and self.situation.state is not GroupState.EMPTY:
                unread[name] = self.unsettled[name]
        return unread

    def is_consumed(self, topic: str) -> bool:
        """Return whether members may have messages of a topic: false if all report that they do not subscribe to it."""
        is_reported = self.situation.state is GroupState.ONLINE and not self.unheard
        return not is_reported or topic in self.filters or topic.startswith(RETRY_PREFIX)


async def find_configured(client: Client, found: FoundGroup) -> frozenset[str]:
    """Return the brokers that have the group configured; find_unreported() returns those that do not report it."""
    tables = await fetch_configs(client, found.brokers)
    return frozenset(name for name, table in tables.ok.items() if found.situation.group in table)


async def find_unreported(
    client: Client, found: FoundGroup, names: Iterable[str]
) -> tuple[dict[str, Failure], tuple[Consequence, ...]]:
    """Return, by name, which of these brokers did not report whether they have the group configured.

    Nothing is changed there: no check would notice that the group was deleted since. A broker that refuses this account
    always refuses it, so it is only named, in a consequence.
    """
    asked = {name: found.brokers[name] for name in names if name in found.brokers}
    tables = await fetch_configs(client, asked)
    refused = sorted(name for name, error in tables.failed.items() if isinstance(error, NotAuthorisedError))
    errors = dict(tables.failed)
    # A slave may not have copied the configuration.
    errors |= {
        name: client.silent_masters[name]
        for name, table in tables.ok.items()
        if name in client.silent_masters and found.situation.group not in table
    }
    unread = {name: Failure(name, GROUPS, error) for name, error in sorted(errors.items()) if name not in refused}
    if not refused:
        return unread, ()
    text = (
        f"{listed(refused)} does not allow this account to list groups: rmqctl will not notice if the group is "
        "deleted there."
    )
    return unread, (Consequence("CONFIGURATION_HIDDEN", text),)


async def require_configured(client: Client, found: FoundGroup, names: Iterable[str], *, hint: str) -> None:
    """Raise RefusedError if brokers of 5.x do not have the group configured: they reject writes of its offsets.

    Also for a group of lite topics: each subscription chooses where it starts, and no broker reports that.
    """
    asked = {name: found.brokers[name] for name in names if name in found.brokers and found.versions[name] >= V5_0_0}
    tables = await fetch_configs(client, asked)
    group = found.situation.group
    parent = bound_topic(table.get(group) for table in tables.ok.values())
    if parent is not None:
        sentence = f"Group {group} consumes lite topics of {parent}: its offsets cannot be changed from outside."
        hint = "A client chooses where to start when it subscribes to a lite topic (RIP-83)."
        raise RefusedError(sentence, hint=hint)
    lacking = sorted(
        name for name, table in tables.ok.items() if group not in table and name not in client.silent_masters
    )
    if lacking:
        sentence = f"Group {group} is not configured at {listed(lacking)}, which would reject its offsets."
        raise RefusedError(sentence, hint=hint)


async def find_group(client: Client, group: str, topics: Sequence[str]) -> FoundGroup:
    """Read a group, in some topics or all that it consumes.

    Raises NotFoundError for a group or topic that does not exist, and the brokers' error when none of them answers.
    """
    reading = await read_group(client, group, topics)
    progress = conclude(group, reading)
    brokers = {name: view.broker for name, view in reading.views.items()}
    settings = await ask_all(brokers, lambda name: _is_server_side(client, brokers[name]))
    holding = {name for name in (*brokers, *reading.failed_brokers) if _may_hold(client, reading, name)}
    return FoundGroup(
        situation=_situation(group, progress, reading),
        rows={row.mq: row for row in progress.rows},
        known_topics=frozenset(mq.topic for view in reading.views.values() for mq in view.stats.queues),
        offsets={
            row.mq: row.consumer_offset
            for row in progress.rows
            if row.consumer_offset is not None or row.reasons.get("consumerOffset") is Unknown.NEVER_COMMITTED
        },
        brokers=brokers,
        versions={name: view.version for name, view in reading.views.items()},
        is_server_side=settings.ok,
        unsettled=settings.failed,
        client_ids=tuple(sorted({member.client_id for found in reading.connections() for member in found.members})),
        read_queue_counts={
            (topic, data.broker_name): data.read_queue_count
            for topic, route in reading.routes.items()
            for data in route.queue_data
        },
        failures=tuple(
            failure
            for failure in progress.failures
            # These are not needed: a plan has no ages, brokers see silent members, unreadable queues are left alone.
            if not failure.what.startswith(
                ("message ages", "retention", "running info", "all stored offsets", "messages of")
            )
            if not topics or failure.broker_name is None or failure.broker_name in holding
        ),
        filters=_filters(reading),
        unheard=tuple(_unheard(reading)),
        unreadable=progress.unreadable,
        places=dict(_places(progress, reading)),
    )


def _may_hold(client: Client, reading: GroupReading, name: str) -> bool:
    """Return whether a broker has queues of the topics that were read, or may have, as far as is known."""
    if any(reading.has_queues(topic, name) for topic in reading.topics):
        return True
    is_missing = isinstance(reading.failed_brokers.get(name), NotRegisteredError)
    return is_missing and any(may_hold(topic, name, client.expectation) for topic in reading.topics)


def _places(progress: GroupProgress, reading: GroupReading) -> Iterator[tuple[MessageQueue, tuple[int, ...]]]:
    forgetful = forgetful_members(reading.connections())
    for row in progress.rows:
        if row.consumer_offset is None:
            continue
        held = [reading.running.ok[client_id].process_queues.get(row.mq) for client_id in row.client_ids]
        positions = [None if each is None else each.position for each in held]
        is_popped = row.reasons.get("inflight") is Unknown.POP and not is_unheard(row)  # the broker keeps the position
        if is_popped or (not row.client_ids and is_free(row)):
            yield row.mq, (row.consumer_offset,)
        elif row.client_ids and forgetful.isdisjoint(row.client_ids) and None not in positions:
            yield row.mq, (row.consumer_offset, *(each for each in positions if each is not None))


def _unheard(reading: GroupReading) -> Iterator[str]:
    if reading.running.failed:
        yield f"{counted(len(reading.running.failed), 'member')} that did not report"
    if reading.proxies is not Proxies.ABSENT:
        yield "members behind proxies"
    if reading.unheard:
        yield f"members at {listed(sorted(reading.unheard))}"


def _filters(reading: GroupReading) -> dict[str, tuple[str, ...]]:
    """Return the members' subscriptions by topic; empty for a topic of which they only hold queues."""
    found = reading.filters()
    for info in reading.running.ok.values():
        for mq in (*pulled_queues(info), *info.pop_unacked):
            found.setdefault(mq.topic, ())
    return found


async def _is_server_side(client: Client, broker: BrokerData) -> bool:
    return (await read_settings(client, broker)).values.get(_SERVER_SIDE) == "true"


def _situation(group: str, progress: GroupProgress, reading: GroupReading) -> GroupSituation:
    connected = reading.connections()
    # Members that consume from a broker are connected to it: members at brokers that did not answer consume nothing
    # that can be changed now. Proxies hide their members.
    unseen = unseen_reason([], reading.proxies)
    has_members = any(found.members for found in connected)
    return GroupSituation(
        group=group,
        state=group_state(unseen, has_members=has_members),
        unseen_reason=None if has_members else unseen,
        consume_type=_agreed_unless(
            CONSUME_ACTIVELY, [found.consume_type for found in connected], _reported("PROP_CONSUME_TYPE", reading)
        ),
        message_model=_agreed_unless(
            BROADCASTING, [found.message_model for found in connected], _reported("messageModel", reading)
        ),
        both_ways=frozenset(both_ways(reading.running.ok, (row.mq for row in progress.rows))),
        is_popping=any(Unknown.POP in row.reasons.values() for row in progress.rows),
        languages=frozenset(member.language for found in connected for member in found.members),
        unheard=tuple(sorted(reading.unheard)),
        unheard_reason=reason_of(reading.unheard.values()) if reading.unheard else None,
        silent=tuple(unheard(reading.running.failed.items())),
    )


def _agreed_unless(refused: str, at_brokers: Collection[str], by_members: Collection[str]) -> str | None:
    """Return what all brokers report, or `refused` if a broker or a member reports it: that one would ignore a reset.

    A broker reports what the last heartbeat said, of whichever member that was.
    """
    return refused if refused in at_brokers or refused in by_members else agreed(at_brokers)


def _reported(name: str, reading: GroupReading) -> set[str]:
    """Return the values that members report for one of their properties."""
    return {info.properties.get(name, "") for info in reading.running.ok.values()}


async def find_stored(client: Client, group: str) -> FoundGroup:
    """Read a group with all its stored offsets, also those of topics that no longer exist.

    Its rows are from brokers that did not report their offsets. Raises what find_group raises.
    """
    found = await find_group(client, group, ())
    tables = await ask_all(found.brokers, lambda name: fetch_group_table(client, found.brokers[name], group))
    failures = [Failure(name, "all stored offsets", error) for name, error in tables.failed.items()]
    return replace(
        found,
        rows={mq: row for mq, row in found.rows.items() if mq.broker_name not in tables.ok},
        offsets={mq: offset for table in tables.ok.values() for mq, offset in table.offsets.items()},
        failures=(*found.failures, *failures),
    )


async def find_retry_routes(client: Client, found: FoundGroup) -> tuple[Mapping[str, TopicRoute], list[RmqctlError]]:
    """Return the routes of the existing retry topics, by topic, and the errors of name servers."""
    situation, topics = found.situation, {mq.topic for mq in found.rows}
    try:
        names = await find_retry_topics(client, situation.group, topics, is_popping=situation.is_popping)
    except RmqctlError as error:
        return {}, [error]
    names |= {topic for topic in found.known_topics if topic.startswith(RETRY_PREFIX)}
    routes = await ask_all(sorted(names), client.route)
    return routes.ok, [error for error in routes.failed.values() if not isinstance(error, NotFoundError)]


async def describe_waiting(
    client: Client, found: FoundGroup, changed: Collection[str]
) -> tuple[tuple[Consequence, ...], list[Failure]]:
    """Return how many messages wait in retry topics that are not to be changed, and what could not be read of it."""
    group = found.situation.group
    routes, errors = await find_retry_routes(client, found)
    places = [
        (topic, data.broker_name)
        for topic, route in routes.items()
        if topic not in changed
        for data in route.queue_data
        if data.broker_name in found.brokers
    ]

    async def ask(place: tuple[str, str]) -> int:
        topic, name = place
        answer = await client.ask_broker(found.brokers[name], headers.get_consume_stats(group, topic))
        queues = bodies.decode_consume_stats(answer.command.body).queues
        return sum(max(0, item.broker_offset - item.consumer_offset) for item in queues.values())

    answers = await ask_all(places, ask)
    waiting = {place: count for place, count in answers.ok.items() if count}
    consequences = []
    if waiting:
        count, topics = sum(waiting.values()), sorted({topic for topic, _ in waiting})
        wait, stay = ("waits", "stays") if count == 1 else ("wait", "stay")
        text = (
            f"{counted(count, 'message')} {wait} in {listed(topics)}, and {stay} there. "
            "Add --with-retry to include the retry topics."
        )
        consequences.append(Consequence("RETRY_LEFT", text))
    failures = [Failure(None, WAITING, error) for error in errors]
    failures += [Failure(name, f"{WAITING} of {topic}", error) for (topic, name), error in answers.failed.items()]
    if failures:
        at = f" at {listed(sorted({name for _, name in answers.failed}))}" if answers.failed else ""
        text = f"It is unknown whether messages wait in the group's retry topics{at}: {failures[0].error.sentence}"
        consequences.append(Consequence("RETRY_UNKNOWN", text))
    return tuple(consequences), failures

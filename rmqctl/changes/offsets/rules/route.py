"""How a change of offsets is written, or why it is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from rmqctl.errors import RefusedError
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CPP, GO, GroupState
from rmqctl.model.plan import Consequence, Route
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.group_state import why_unseen
from rmqctl.text.words import listed


class GroupSituation(Struct, frozen=True):
    """The state of a group. None as `consume_type` or `message_model`: members differ or do not report it.

    `languages` are those of its members; `unseen_reason` says why the group may have members although none is visible.
    `both_ways` are queues that one member pulls and another pops.
    `unheard` are brokers that did not answer, and `unheard_reason` says why: members there, if any, consume nothing
    from the other brokers' queues. `silent` says, in clauses, which members did not report what they hold.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None = None
    consume_type: str | None = None
    message_model: str | None = None
    is_popping: bool = False
    both_ways: frozenset[MessageQueue] = frozenset()
    languages: frozenset[str] = frozenset()
    unheard: tuple[str, ...] = ()
    unheard_reason: Unknown | None = None
    silent: tuple[str, ...] = ()


def require_resettable(situation: GroupSituation, *, assume_offline: bool, is_server_side: Collection[bool]) -> None:
    """Raise RefusedError for a group whose offsets brokers cannot change, or whose clients would not notice.

    `is_server_side` has, for each broker of the change, whether it sends clients to an offset itself.
    """
    group = situation.group
    if situation.message_model == BROADCASTING:
        sentence = f"Group {group} broadcasts: each client keeps its offsets in its own file, not at the brokers."
        hint = "Stop the client and change offsets.json below its ~/.rocketmq_offsets, or start with a new group."
        raise RefusedError(sentence, hint=hint)
    if situation.state is GroupState.UNKNOWN and not assume_offline and not all(is_server_side):
        sentence = (
            f"It is unknown whether group {group} has members ({why_unseen(situation.unseen_reason)}), and they would "
            "not notice."
        )
        hint = "If you know that the group has no running members, add --assume-offline."
        raise RefusedError(sentence, hint=hint)
    if situation.state is GroupState.ONLINE and situation.consume_type == CONSUME_ACTIVELY:
        # LitePull moves where a 5.x broker sends it, but commits its last polled position until it polls there: a
        # skipped backlog is redelivered at its next start. DefaultMQPullConsumer leaves offsets to its caller.
        does = "may ignore a reset or overwrite it" if any(is_server_side) else "ignore a reset"
        sentence = f"Members of group {group} manage their pull offsets themselves, and {does}."
        hint = "Stop the members first, or call seek() in the program."
        raise RefusedError(sentence, hint=hint)
    if situation.state is GroupState.ONLINE and situation.is_popping and not all(is_server_side):
        sentence = f"Group {group} pops, but not every broker resets offsets itself (useServerSideResetOffset)."
        raise RefusedError(sentence, hint="Stop the members first.")
    if situation.state is GroupState.ONLINE and not all(is_server_side) and len(situation.languages) > 1:
        known = sorted(situation.languages)
        if CPP in known:
            sentence = f"Group {group} has members in {', '.join(known)}: others cannot read a reset for C++."
            raise RefusedError(sentence, hint="Stop all members first, or all members of one kind.")


def require_one_way(situation: GroupSituation, queues: Iterable[MessageQueue]) -> None:
    """Raise RefusedError if any of these queues is pulled by one member and popped by another.

    The next pull or pop erases the broker's mark (ConsumerOffsetManager.queryThenEraseResetOffset).
    The other member does not follow.
    """
    mixed = sorted(situation.both_ways.intersection(queues))
    if mixed and situation.state is GroupState.ONLINE:
        sentence = (
            f"Some members of group {situation.group} pull and others pop {listed(mixed)}: a reset would reach only "
            "one of them."
        )
        raise RefusedError(sentence, hint=f"Stop the members first. To see which: rmqctl diagnose {situation.group}.")


def choose_route(situation: GroupSituation, *, assume_offline: bool, is_server_side: bool) -> Route:
    """Return the route for one broker, for a group that require_resettable() accepts."""
    is_offline = situation.state is GroupState.EMPTY or (assume_offline and situation.state is GroupState.UNKNOWN)
    if is_offline:
        return Route.BROKER_WRITE
    return Route.SERVER_SIDE if is_server_side else Route.CLIENT_PUSH


def is_cpp_only(languages: Collection[str]) -> bool:
    """Tell whether all members read the body for C++ clients."""
    return set(languages) == {CPP}


def is_unheard(row: QueueProgress) -> bool:
    """Tell whether no other member reports the queue, and one that did not answer may hold it."""
    return row.reasons.get("clientId") is Unknown.CLIENT_SILENT


def describe_silent(situation: GroupSituation, rows: Collection[QueueProgress]) -> Iterator[Consequence]:
    """Name the members that did not report what they hold, and what they can do to a change of these queues."""
    if not situation.silent or situation.state is not GroupState.ONLINE:
        return
    unheard = sorted(row.mq for row in rows if is_unheard(row))
    text = " and ".join(situation.silent)
    if unheard:
        text += f", and may hold {listed(unheard)}. The change may stay unconfirmed there until all members answer"
    text += "."
    if len(unheard) < len(rows):
        text += (
            " One that hangs can overwrite the offsets of queues that other members took over, for up to 15 s after "
            "it continues."
        )
    yield Consequence("MEMBERS_SILENT", text)


def describe_routes(situation: GroupSituation, routes: Collection[Route]) -> tuple[Consequence, ...]:
    """Return the consequences of each route for the group."""
    found: list[Consequence] = []
    if Route.BROKER_WRITE in routes:
        said = (
            "The group is assumed to have no members (--assume-offline)"
            if situation.state is not GroupState.EMPTY
            else "No member is connected to the brokers that answered"
            if situation.unheard
            else "The group has no members"
        )
        text = f"{said}. Offsets are written to the brokers; the next member starts from them."
        found.append(Consequence("OFFLINE", text))
    if Route.SERVER_SIDE in routes:
        text = (
            "The brokers store the offsets, and each client moves there with its next pull. An idle client pulls again "
            "within 15 s; a blocked client moves when it pulls again."
        )
        found.append(Consequence("SERVER_SIDE", text))
    if Route.CLIENT_PUSH in routes:
        # One topic and one broker after the other, 10 s each; 5.x clients need some 16 s.
        text = (
            f"All members of {situation.group} pause for 10-16 s per topic and broker. Until then they continue, so "
            "more than RECONSUMED may be redelivered. Do not start members meanwhile: queues that are assigned to them "
            "are not reset."
        )
        found.append(Consequence("CLIENTS_PAUSE", text))
    if GO in situation.languages and Route.SERVER_SIDE in routes:
        text = (
            "Go clients release a queue for 10-30 s when it is reset. If several queues are reset at the same time, "
            "they can miss some: those are reported and can be reset again."
        )
        found.append(Consequence("GO_FORGETS", text))
    if GO in situation.languages and Route.CLIENT_PUSH in routes:
        text = "Go clients may stop consuming other queues for up to 30 s as well."
        found.append(Consequence("GO_PAUSES", text))
    if situation.is_popping and Route.SERVER_SIDE in routes:
        text = "Messages that are popped but not acknowledged are redelivered when their invisible time ends."
        found.append(Consequence("POPPED_COME_BACK", text))
    if situation.state is GroupState.UNKNOWN:
        text = f"It is unknown whether the group has members ({why_unseen(situation.unseen_reason)})."
        found.append(Consequence("MEMBERS_UNSEEN", text))
    if situation.state is GroupState.EMPTY and situation.unheard:
        text = f"Members at {listed(situation.unheard)} are unknown ({why_unseen(situation.unheard_reason)})."
        found.append(Consequence("MEMBERS_UNSEEN", text))
    return tuple(found)

"""Which way a change of offsets takes, or why it can't be made."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from rmqctl.errors import RefusedError
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CPP, GO, GroupState
from rmqctl.model.plan import Consequence, Route
from rmqctl.model.progress import Unknown

from .words import listed


class Situation(Struct, frozen=True):
    """How a group was found. `consume_type` and `message_model` are None where members differ or nobody says.

    `languages` are those of its members; `unseen_reason` says why there may be members although nobody is seen.
    `unheard` are brokers that were not heard, and `unheard_reason` why: members there, if any, consume nothing of the
    other brokers' queues.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None = None
    consume_type: str | None = None
    message_model: str | None = None
    is_popping: bool = False
    languages: frozenset[str] = frozenset()
    unheard: tuple[str, ...] = ()
    unheard_reason: Unknown | None = None


def require_resettable(situation: Situation, *, assume_offline: bool, is_server_side: Collection[bool]) -> None:
    """Raise RefusedError for a group whose offsets no broker can change, or whose clients would not notice.

    `is_server_side` tells of the brokers that the change is about whether they send clients to an offset themselves.
    """
    group = situation.group
    if situation.message_model == BROADCASTING:
        sentence = f"Group {group} broadcasts: each client keeps its offsets in a file of its own, no broker has them."
        hint = "Stop the client and change offsets.json below its ~/.rocketmq_offsets, or begin with another group."
        raise RefusedError(sentence, hint=hint)
    if situation.state is GroupState.UNKNOWN and not assume_offline and not all(is_server_side):
        sentence = (
            f"Whether group {group} has members is not known ({situation.unseen_reason}), and they would not notice."
        )
        hint = "If you know that nobody consumes, --assume-offline says so."
        raise RefusedError(sentence, hint=hint)
    if situation.state is GroupState.ONLINE and situation.consume_type == CONSUME_ACTIVELY:
        # LitePull goes where a broker of 5.x sends it, but stores where it polled last until it polls something there:
        # a backlog that was skipped comes back with its next start. DefaultMQPullConsumer leaves it to its caller.
        does = "may ignore a reset, or store their own offset over it" if any(is_server_side) else "ignore a reset"
        sentence = f"Members of group {group} pull by themselves, and {does}."
        hint = "Stop them first: the offsets of a group without members can be set. Or let the program seek()."
        raise RefusedError(sentence, hint=hint)
    if situation.state is GroupState.ONLINE and situation.is_popping and not all(is_server_side):
        sentence = f"Group {group} pops, and not every broker resets for it (useServerSideResetOffset)."
        raise RefusedError(sentence, hint="Stop the members first: the offsets of a group without members can be set.")
    if situation.state is GroupState.ONLINE and not all(is_server_side) and len(situation.languages) > 1:
        known = sorted(situation.languages)
        if CPP in known:
            sentence = f"Group {group} has members in {', '.join(known)}: a reset that C++ can read the others can't."
            raise RefusedError(sentence, hint="Stop the members first, or those of one kind.")


def choose_route(situation: Situation, *, assume_offline: bool, is_server_side: bool) -> Route:
    """Return the way for one broker, of a group that require_resettable() let pass."""
    is_offline = situation.state is GroupState.EMPTY or (assume_offline and situation.state is GroupState.UNKNOWN)
    if is_offline:
        return Route.BROKER_WRITE
    return Route.SERVER_SIDE if is_server_side else Route.CLIENT_PUSH


def is_cpp_only(languages: Collection[str]) -> bool:
    """Tell whether all members read the body for C++ clients."""
    return set(languages) == {CPP}


def describe_routes(situation: Situation, routes: Collection[Route]) -> tuple[Consequence, ...]:
    """Say what each way does to the group."""
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
            "The brokers store the offsets and send each client there with its next pull. A client that waits for "
            "messages notices within 15 s, a blocked one when it pulls again."
        )
        found.append(Consequence("SERVER_SIDE", text))
    if Route.CLIENT_PUSH in routes:
        # One topic and one broker after the other, 10 s each; 5.x clients need some 16 s.
        text = (
            f"All members of {situation.group} stop for 10-16 s per topic and broker; until then they go on, so more "
            "than RECONSUMED may be redelivered. Do not start members meanwhile: the queues that they take over are "
            "not reset."
        )
        found.append(Consequence("CLIENTS_PAUSE", text))
    if GO in situation.languages and Route.SERVER_SIDE in routes:
        text = (
            "Go clients release a queue for 10-30 s when they are reset. Of several queues at once they can forget "
            "some: those are reported and can be reset again."
        )
        found.append(Consequence("GO_FORGETS", text))
    if GO in situation.languages and Route.CLIENT_PUSH in routes:
        text = "Go clients may stop consuming other queues for up to 30 s as well."
        found.append(Consequence("GO_PAUSES", text))
    if situation.is_popping and Route.SERVER_SIDE in routes:
        text = "Messages that are popped and not acknowledged are redelivered when their invisible time ends."
        found.append(Consequence("POPPED_COME_BACK", text))
    if situation.state is GroupState.UNKNOWN:
        text = f"It is unknown whether the group has members ({situation.unseen_reason})."
        found.append(Consequence("MEMBERS_UNSEEN", text))
    if situation.state is GroupState.EMPTY and situation.unheard:
        text = f"Members at {listed(situation.unheard)} are unknown ({situation.unheard_reason})."
        found.append(Consequence("MEMBERS_UNSEEN", text))
    return tuple(found)

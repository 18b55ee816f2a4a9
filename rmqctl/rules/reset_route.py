"""Which way a change of offsets takes, or why it can't be made."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from rmqctl.errors import RefusedError
from rmqctl.model.group import BROADCASTING, GO, GroupState
from rmqctl.model.plan import Consequence, Route
from rmqctl.model.progress import Unknown

# Clients that pull by themselves (ConsumeType): DefaultMQPullConsumer, DefaultLitePullConsumer.
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
_CPP = "CPP"


class Situation(Struct, frozen=True):
    """How a group was found. `consume_type` and `message_model` are None where members differ or nobody says.

    `languages` are those of its members; `unseen_reason` says why there may be members although nobody is seen.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None = None
    consume_type: str | None = None
    message_model: str | None = None
    is_popping: bool = False
    languages: frozenset[str] = frozenset()


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
        if _CPP in known:
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
    return set(languages) == {_CPP}


def describe_routes(situation: Situation, routes: Collection[Route]) -> tuple[Consequence, ...]:
    """Say what each way does to the group."""
    found: list[Consequence] = []
    if Route.BROKER_WRITE in routes:
        said = (
            "Nobody consumes"
            if situation.state is GroupState.EMPTY
            else "Nobody is taken to consume (--assume-offline)"
        )
        text = f"{said}: the offsets are stored at the brokers, and who comes begins there."
        found.append(Consequence("OFFLINE", text))
    if Route.SERVER_SIDE in routes:
        text = (
            "Brokers store the offsets, and send clients there with their next pull; until then they store no other. "
            "A client that waits for messages notices within 15 s, a blocked one when it pulls again."
        )
        found.append(Consequence("SERVER_SIDE", text))
    if Route.CLIENT_PUSH in routes:
        text = (
            "Clients are told: each stops consuming all of its topics for 10 s, one topic and one broker after the "
            "other (5.x some 16 s each), and goes on from there. Until its turn a queue is consumed as before: more is "
            "consumed again then, or less skipped. Queues that are not named go on from their stored offset, which can "
            "be 5 s old. Nobody may join meanwhile: what moves to it is not reset."
        )
        found.append(Consequence("CLIENTS_PAUSE", text))
    if GO in situation.languages and Route.SERVER_SIDE in routes:
        text = (
            "Go clients stop for 10 s where they are sent away, and take the queue again within 20 s more. Of several "
            "queues at once they can forget some: what did not go there is told, and can be reset again."
        )
        found.append(Consequence("GO_FORGETS", text))
    if GO in situation.languages and Route.CLIENT_PUSH in routes:
        text = "Go clients: queues that are not named can stand still for 30 s as well."
        found.append(Consequence("GO_PAUSES", text))
    if situation.is_popping and Route.SERVER_SIDE in routes:
        text = "Messages that are popped and not acknowledged come back when their time is over, wherever it is sent."
        found.append(Consequence("POPPED_COME_BACK", text))
    if situation.state is GroupState.UNKNOWN:
        text = f"Whether there are members is not known ({situation.unseen_reason})."
        found.append(Consequence("MEMBERS_UNSEEN", text))
    return tuple(found)

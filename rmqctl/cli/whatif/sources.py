"""The sources of a group to simulate: a running one, a spec, or a size."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.admin.groups.names import find_bound_topic
from rmqctl.admin.results import failed_by_name, not_found
from rmqctl.cli.arguments import seconds_option
from rmqctl.cli.files import read_input
from rmqctl.cli.invocation import Invocation
from rmqctl.errors import NotFoundError, RefusedError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, GroupState
from rmqctl.whatif.live import fetch_scene
from rmqctl.whatif.scene import Scene
from rmqctl.whatif.shape import shape
from rmqctl.whatif.spec import parse_spec
from rmqctl.whatif.trying import Question

_SAMPLE_S = 1.0


def require_one_source(
    command: str, group: str | None, spec: str | None, brokers: int | None, consumers: int | None
) -> None:
    """Raise UsageError unless there is exactly one source of the group."""
    if sum([group is not None, spec is not None, brokers is not None or consumers is not None]) != 1:
        raise UsageError(
            "Name one group, or give --spec, or --brokers with --queues and --consumers.",
            hint=f"Run for example rmqctl whatif {command} --brokers 5 --queues 2 --consumers 3.",
        )


def sample_time_s(text: str | None) -> float:
    """Return how long to count messages. Raises UsageError."""
    return _SAMPLE_S if text is None else seconds_option("--sample", text)


def read_group(
    invocation: Invocation, group: str, topics: Sequence[str], *, sample_s: float, may_be_empty: bool = False
) -> tuple[Scene, Sequence[Failure]]:
    """Read a running group. Raises NotFoundError without queues or clients, UsageError for a broadcasting one."""
    wanted = [invocation.full_name(topic) for topic in topics]
    if sample_s * 1000 >= invocation.timeout_ms:
        sentence = f"Messages cannot be counted for {sample_s:g} s: the deadline of the command is"
        raise UsageError(f"{sentence} {invocation.timeout_ms / 1000:g} s.", hint="Increase --timeout.")
    live = invocation.ask(lambda client: fetch_scene(client, group, wanted, sample_s=sample_s))
    scene = live.scene
    if scene.live is not None and scene.live.message_model == BROADCASTING:
        raise UsageError(f"Group {group} is broadcasting: every member reads all queues, so no queue is allocated.")
    if not scene.queues:
        if (parent := invocation.ask(lambda client: find_bound_topic(client, group))) is not None:
            sentence = f"Group {group} consumes lite topics of {parent}, which are not allocated by queue."
            raise RefusedError(sentence, hint="Each of its clients subscribes to lite topics by name (RIP-83).")
        sentence = f"Group {group} has no topic with queues to share."
        hint = f"Show its topics with rmqctl group subscriptions {group}."
        error = NotFoundError("Topic", group).reworded(sentence, hint=hint)
        raise not_found(error, untold_of(scene, live.failures))
    if not scene.client_ids and not may_be_empty:
        seen = "no members that brokers can see"
        sentence = f"Group {group} has {seen}{f' ({live.unseen_reason})' if live.state is GroupState.UNKNOWN else ''}."
        hint = f"Simulate N clients with rmqctl whatif allocate {group} --add-clients N."
        raise not_found(NotFoundError("Client", group).reworded(sentence, hint=hint), untold_of(scene, live.failures))
    return scene, live.failures


def untold_of(scene: Scene, failures: Sequence[Failure]) -> dict[str, RmqctlError]:
    """Return the errors of brokers that may know more members and queues of a running group, by name."""
    silent = () if scene.live is None else scene.live.silent_brokers
    return failed_by_name(failure for failure in failures if failure.broker_name in silent)


def read_spec(path: str) -> list[Question]:
    """Read the groups of a spec, `-` for stdin. Raises UsageError."""
    return [
        Question(item.scene, item.strategy, item.options, item.site_of)
        for item in parse_spec(read_input("--spec", path))
    ]


def shaped(brokers: int | None, queue_count: int | None, consumers: int | None) -> Question:
    """Return a group of this size. Raises UsageError."""
    for option, value in (("--brokers", brokers), ("--queues", queue_count), ("--consumers", consumers)):
        if value is None:
            hint = "Use for example --brokers 5 --queues 2 --consumers 3."
            raise UsageError(f"{option} is missing: use --brokers, --queues and --consumers together.", hint=hint)
    return Question(shape(brokers or 0, queue_count or 0, consumers or 0))

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
from rmqctl.whatif.group_snapshot import GroupSnapshot
from rmqctl.whatif.live_snapshot import fetch_snapshot
from rmqctl.whatif.sized_group import shape
from rmqctl.whatif.spec import parse_spec
from rmqctl.whatif.trials import TrialRequest

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
) -> tuple[GroupSnapshot, Sequence[Failure]]:
    """Read a running group. Raises NotFoundError without queues or clients, UsageError for a broadcasting one."""
    wanted = [invocation.full_name(topic) for topic in topics]
    live = invocation.ask(lambda client: fetch_snapshot(client, group, wanted, sample_s=sample_s))
    snapshot = live.snapshot
    if snapshot.live is not None and snapshot.live.message_model == BROADCASTING:
        raise UsageError(f"Group {group} is broadcasting: every member reads all queues, so no queue is allocated.")
    if not snapshot.queues:
        if (parent := invocation.ask(lambda client: find_bound_topic(client, group))) is not None:
            sentence = f"Group {group} consumes lite topics of {parent}, which are not allocated by queue."
            raise RefusedError(sentence, hint="Each of its clients subscribes to lite topics by name (RIP-83).")
        sentence = f"Group {group} has no topic with queues to share."
        hint = f"Show its topics with rmqctl group subscriptions {group}."
        error = NotFoundError("Topic", group).reworded(sentence, hint=hint)
        raise not_found(error, unread_brokers(snapshot, live.failures))
    if not snapshot.client_ids and not may_be_empty:
        seen = "no members that brokers can see"
        sentence = f"Group {group} has {seen}{f' ({live.unseen_reason})' if live.state is GroupState.UNKNOWN else ''}."
        hint = f"Simulate N clients with rmqctl whatif allocate {group} --add-clients N."
        raise not_found(
            NotFoundError("Client", group).reworded(sentence, hint=hint), unread_brokers(snapshot, live.failures)
        )
    return snapshot, live.failures


def unread_brokers(snapshot: GroupSnapshot, failures: Sequence[Failure]) -> dict[str, RmqctlError]:
    """Return the errors of brokers that may know more members and queues of a running group, by name."""
    silent = () if snapshot.live is None else snapshot.live.silent_brokers
    return failed_by_name(failure for failure in failures if failure.broker_name in silent)


def read_spec(path: str) -> list[TrialRequest]:
    """Read the groups of a spec, `-` for stdin. Raises UsageError."""
    return [
        TrialRequest(item.snapshot, item.strategy, item.options, item.site_of)
        for item in parse_spec(read_input("--spec", path))
    ]


def shaped(brokers: int | None, queue_count: int | None, consumers: int | None) -> TrialRequest:
    """Return a group of this size. Raises UsageError."""
    for option, value in (("--brokers", brokers), ("--queues", queue_count), ("--consumers", consumers)):
        if value is None:
            hint = "Use for example --brokers 5 --queues 2 --consumers 3."
            raise UsageError(f"{option} is missing: use --brokers, --queues and --consumers together.", hint=hint)
    return TrialRequest(shape(brokers or 0, queue_count or 0, consumers or 0))

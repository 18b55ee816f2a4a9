"""Requests to the control socket of a running sandbox, and its answers: one JSON line each.

A request is `{"version":1,"ask":{"do":"status"}}`; `ask` is one of the structs below. An answer has either `result`
or `error`.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw, Struct, field

VERSION = 1
NAME_SERVER = "namesrv"

EffectName = Literal["answer", "drop", "silence", "delay", "corrupt"]
BrokerChange = Literal["refuse-writes", "allow-writes", "skew", "restart", "stop", "start"]


class AskStatus(Struct, frozen=True, tag_field="do", tag="status"):
    """Request the status. The result is a SandboxStatus."""


class PlanFault(Struct, frozen=True, tag_field="do", tag="plan"):
    """Plan a fault for the next requests; None means any code, any server, no end. The result is a FaultReport."""

    effect: EffectName
    code: int | None = None
    server: str | None = None
    count: int | None = 1
    with_code: int | None = None
    remark: str | None = None
    delay_ms: int = 0


class CutClient(Struct, frozen=True, tag_field="do", tag="partition"):
    """Cut a client off from a broker; None means all brokers. The result is a FaultReport."""

    client_id: str
    server: str | None = None


class HealClient(Struct, frozen=True, tag_field="do", tag="heal"):
    """End the partition of a client; None means all clients. The result is a FaultReport."""

    client_id: str | None = None


class ChangeBroker(Struct, frozen=True, tag_field="do", tag="broker"):
    """Change a broker; None means all brokers. The result is a FaultReport."""

    change: BrokerChange
    server: str | None = None
    skew_ms: int = 0
    lose_unflushed: bool = False


class ListFaults(Struct, frozen=True, tag_field="do", tag="faults"):
    """Request the faults in effect. The result is a FaultReport."""


class ClearFaults(Struct, frozen=True, tag_field="do", tag="clear"):
    """Remove all faults. The result is a FaultReport."""


class Advance(Struct, frozen=True, tag_field="do", tag="advance"):
    """Move the clock of the sandbox forward. The result is a ClockReport."""

    milliseconds: int


class Seed(Struct, frozen=True, tag_field="do", tag="seed"):
    """Run a scenario. The result is a list of SeededGroup."""

    scenario: str


class Shutdown(Struct, frozen=True, tag_field="do", tag="down"):
    """Shut down. The result is null."""


Ask = (
    AskStatus | PlanFault | CutClient | HealClient | ChangeBroker | ListFaults | ClearFaults | Advance | Seed | Shutdown
)


class ControlRequest(Struct, frozen=True):
    """One line to the sandbox. `ask` is decoded only after the version is checked."""

    ask: Raw
    version: int = VERSION


class ErrorReport(Struct, frozen=True, rename="camel"):
    """An error as the command line reports it."""

    name: str
    message: str
    hint: str | None
    exit_code: int


class ControlReply(Struct, frozen=True):
    """One line from the sandbox."""

    version: int = VERSION
    result: Any = None
    error: ErrorReport | None = None


class BrokerStatus(Struct, frozen=True, rename="camel"):
    """One broker. Counts exclude RocketMQ's own topics and groups; a stopped broker has no counts of clients (None)."""

    broker_name: str
    broker_addr: str
    is_running: bool
    is_writable: bool
    clock_skew_ms: int
    topic_count: int
    group_count: int
    message_count: int
    member_count: int | None
    producer_count: int | None
    connection_count: int | None
    held_count: int | None


class SandboxStatus(Struct, frozen=True, rename="camel"):
    """One running sandbox. Times are epoch ms of the machine's clock; the sandbox's clock is `clock_ahead_ms` ahead."""

    namesrv: str
    pid: int
    plays: str
    cluster_name: str
    dir: str | None
    start_timestamp: int
    clock_ahead_ms: int
    connection_count: int
    fault_count: int
    partition_count: int
    brokers: list[BrokerStatus]


class FaultStatus(Struct, frozen=True, rename="camel"):
    """One fault in effect; None in a field means not applicable, any server, any code or no end."""

    fault: str
    server: str | None = None
    request_code: int | None = None
    request: str | None = None
    answer_code: int | None = None
    answer: str | None = None
    remark: str | None = None
    delay_ms: int | None = None
    skew_ms: int | None = None
    client_id: str | None = None
    left_count: int | None = None
    struck_count: int | None = None


class FaultReport(Struct, frozen=True, rename="camel"):
    """What was done, in sentences, and all faults in effect now."""

    done: list[str] = field(default_factory=list)
    faults: list[FaultStatus] = field(default_factory=list)


class ClockReport(Struct, frozen=True, rename="camel"):
    """The time of the sandbox, epoch ms, and its lead over the machine's clock."""

    now_ms: int
    clock_ahead_ms: int

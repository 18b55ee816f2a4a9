"""What a running sandbox is told through its control socket, and what it answers: one JSON line each.

A question is `{"version":1,"ask":{"do":"status"}}`; `ask` is one of the structs below. An answer has either `result`
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
    """How is it? The result is a SandboxStatus."""


class PlanFault(Struct, frozen=True, tag_field="do", tag="plan"):
    """Let something happen to the next requests; None for any code, any server, no end. Results in a FaultReport."""

    effect: EffectName
    code: int | None = None
    server: str | None = None
    count: int | None = 1
    with_code: int | None = None
    remark: str | None = None
    delay_ms: int = 0


class CutClient(Struct, frozen=True, tag_field="do", tag="partition"):
    """Cut a client off from a broker, None for all. Results in a FaultReport."""

    client_id: str
    server: str | None = None


class HealClient(Struct, frozen=True, tag_field="do", tag="heal"):
    """Let a client through again, None for all. Results in a FaultReport."""

    client_id: str | None = None


class ChangeBroker(Struct, frozen=True, tag_field="do", tag="broker"):
    """Do something to a broker, None for all. Results in a FaultReport."""

    change: BrokerChange
    server: str | None = None
    skew_ms: int = 0
    lose_unflushed: bool = False


class ListFaults(Struct, frozen=True, tag_field="do", tag="faults"):
    """What is wrong? Results in a FaultReport."""


class ClearFaults(Struct, frozen=True, tag_field="do", tag="clear"):
    """Let everything be as it should. Results in a FaultReport."""


class Advance(Struct, frozen=True, tag_field="do", tag="advance"):
    """Let time pass at once. Results in a ClockReport."""

    milliseconds: int


class Seed(Struct, frozen=True, tag_field="do", tag="seed"):
    """Run a scenario. The result is a list of Made."""

    scenario: str


class Shutdown(Struct, frozen=True, tag_field="do", tag="down"):
    """End. The result is null."""


Ask = (
    AskStatus | PlanFault | CutClient | HealClient | ChangeBroker | ListFaults | ClearFaults | Advance | Seed | Shutdown
)


class Question(Struct, frozen=True):
    """One line to the sandbox. `ask` is read when the version is known to be ours."""

    ask: Raw
    version: int = VERSION


class ErrorReport(Struct, frozen=True, rename="camel"):
    """An error as the command line reports it."""

    name: str
    message: str
    hint: str | None
    exit_code: int


class Reply(Struct, frozen=True):
    """One line from the sandbox."""

    version: int = VERSION
    result: Any = None
    error: ErrorReport | None = None


class BrokerStatus(Struct, frozen=True, rename="camel"):
    """One broker. Counts leave out what RocketMQ makes for itself; None where it is stopped."""

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
    """One running sandbox. Times are epoch ms on the machine's clock, `clock_ahead_ms` how far its own is ahead."""

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
    """One thing that is wrong; what does not belong to its kind is None, and so is "any" and "without end"."""

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
    """What was done, in sentences, and all that is wrong now."""

    done: list[str] = field(default_factory=list)
    faults: list[FaultStatus] = field(default_factory=list)


class Made(Struct, frozen=True, rename="camel"):
    """What a scenario made of one topic and group; `message_count` is what was sent, `summary` is for people."""

    topic: str
    group: str
    message_count: int
    summary: str


class ClockReport(Struct, frozen=True, rename="camel"):
    """The sandbox's time, and how far it is ahead of the machine's clock."""

    now_ms: int
    clock_ahead_ms: int

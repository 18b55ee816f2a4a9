"""The control socket of a running sandbox, for `rmqctl sandbox fault`, `status`, `seed`, `advance` and `down`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from rmqctl.errors import NotFoundError, RmqctlError, UsageError
from rmqctl.net.clock import SystemClock, ahead_ms
from rmqctl.net.line_server import LineServer
from rmqctl.sandbox.sandbox import CLUSTER, Sandbox
from rmqctl.sandbox.scenarios.seeded_group import SeededGroup
from rmqctl.text.names import closest

from .faults import FaultControl
from .messages import (
    VERSION,
    Advance,
    Ask,
    AskStatus,
    ChangeBroker,
    ClearFaults,
    ClockReport,
    ControlReply,
    ControlRequest,
    CutClient,
    ErrorReport,
    FaultReport,
    HealClient,
    ListFaults,
    PlanFault,
    SandboxStatus,
    Seed,
    Shutdown,
)
from .status import broker_status

logger = logging.getLogger("rmqctl.sandbox")


class ControlServer:
    """The control socket of one sandbox. `is_over` is set by a request to shut down."""

    def __init__(self, sandbox: Sandbox, *, directory: str | None = None) -> None:
        self.is_over = asyncio.Event()
        self._sandbox = sandbox
        self._directory = directory
        self._started_at_ms = SystemClock().now_ms()
        self._faults = FaultControl(sandbox)
        self._server = LineServer(self.answer)
        self._answers: dict[type, Callable[[Any], Awaitable[Any]]] = {
            AskStatus: self.status,
            PlanFault: self._faults.plan,
            CutClient: self._faults.cut,
            HealClient: self._faults.heal,
            ChangeBroker: self._faults.change_broker,
            ListFaults: self._list,
            ClearFaults: self._faults.clear,
            Advance: self._advance,
            Seed: self._seed,
            Shutdown: self._shutdown,
        }

    async def open(self, path: Path) -> None:
        """Listen on a unix socket. Raises UnreachableError."""
        await self._server.open(path)

    async def aclose(self) -> None:
        """Close the socket."""
        await self._server.aclose()

    async def answer(self, line: bytes) -> bytes:
        """Return the answer to one line; never raises."""
        try:
            reply = ControlReply(result=await self._answer(line))
        except RmqctlError as error:
            reply = ControlReply(error=ErrorReport(error.name, error.sentence, error.hint, error.exit_code))
        except Exception as error:  # noqa: BLE001 - it is reported to the client, and the sandbox continues
            logger.warning("the control socket: %s failed: %r", line.decode(errors="replace").strip(), error)
            sentence = f"The sandbox failed: {type(error).__name__}: {error}."
            reply = ControlReply(error=ErrorReport(RmqctlError.name, sentence, None, RmqctlError.exit_code))
        return msgspec.json.encode(reply)

    async def _answer(self, line: bytes) -> Any:
        try:
            question = msgspec.json.decode(line, type=ControlRequest)
            if question.version != VERSION:
                raise UsageError(
                    f"This sandbox speaks version {VERSION} of its control protocol, not {question.version}.",
                    hint="Use the rmqctl that started the sandbox.",
                )
            ask = msgspec.json.decode(question.ask, type=Ask)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UsageError(f"Unknown control request ({error}).") from None
        return await self._answers[type(ask)](ask)

    async def status(self, _: AskStatus) -> SandboxStatus:
        """Return the status of the sandbox and its brokers."""
        sandbox = self._sandbox
        return SandboxStatus(
            namesrv=sandbox.addr, pid=os.getpid(), plays=sandbox.profile.name, cluster_name=CLUSTER,
            dir=self._directory, start_timestamp=self._started_at_ms, clock_ahead_ms=ahead_ms(sandbox.clock),
            connection_count=len(sandbox.name_server.server.channels), fault_count=len(sandbox.faults.planned),
            partition_count=len(sandbox.faults.partitions),
            brokers=[broker_status(broker) for broker in sandbox.brokers.values()],
        )  # fmt: skip

    async def _list(self, _: ListFaults) -> FaultReport:
        return self._faults.report()

    async def _advance(self, ask: Advance) -> ClockReport:
        await self._sandbox.advance(ask.milliseconds / 1000)
        clock = self._sandbox.clock
        return ClockReport(clock.now_ms(), ahead_ms(clock))

    async def _seed(self, ask: Seed) -> list[SeededGroup]:
        from rmqctl.sandbox.scenarios.table import SCENARIOS

        scenario = SCENARIOS.get(ask.scenario)
        if scenario is None:
            raise NotFoundError("Scenario", ask.scenario, suggestions=closest(ask.scenario, SCENARIOS))
        return await scenario.run(self._sandbox)

    async def _shutdown(self, _: Shutdown) -> None:
        self.is_over.set()

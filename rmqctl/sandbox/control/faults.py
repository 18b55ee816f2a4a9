"""Faults requested through the control socket, and reports of them."""

from __future__ import annotations

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.protocol.codes import request_code_name, response_code_name
from rmqctl.protocol.flags import Permission
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.faults.faults import STORED_CODES, AnswerCode, Corrupt, Delay, Drop, Effect, Fault, Silence
from rmqctl.sandbox.sandbox import Sandbox
from rmqctl.text.durations import short_duration
from rmqctl.text.names import closest, hint_for

from .messages import ChangeBroker, ClearFaults, CutClient, FaultReport, FaultStatus, HealClient, PlanFault


class FaultControl:
    """Add and remove faults of one sandbox. Each method returns what it did and all faults in effect."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._faults = sandbox.faults

    async def plan(self, ask: PlanFault) -> FaultReport:
        """Plan a fault for the next requests."""
        fault = self._faults.add(_effect(ask), ask.code, server=ask.server, count=ask.count)
        return self.report(f"{_requests(fault)} {_what_happens(fault)}.")

    async def cut(self, ask: CutClient) -> FaultReport:
        """Cut a client off from one broker, or from all."""
        is_known = self._faults.partition(ask.client_id, server=ask.server)
        where = "every broker" if ask.server is None else ask.server
        done = [f"{ask.client_id} is cut off from {where}: traffic in both directions is lost."]
        if not is_known:
            done.append("No broker knows a client with this id yet.")
        return self.report(*done)

    async def heal(self, ask: HealClient) -> FaultReport:
        """End the partition of one client, or of all. Raises NotFoundError for a client that is not cut off."""
        healed = self._faults.heal(ask.client_id)
        if ask.client_id is not None and not healed:
            raise NotFoundError(
                "A partition of client", ask.client_id, suggestions=closest(ask.client_id, self._faults.partitions)
            )
        return self.report(*(f"{client_id} is no longer cut off." for client_id in healed))

    async def change_broker(self, ask: ChangeBroker) -> FaultReport:
        """Change one broker, or all."""
        return self.report(*[await self._change(broker, ask) for broker in self._brokers(ask.server)])

    async def clear(self, _: ClearFaults) -> FaultReport:
        """Remove all faults: correct all clocks, start stopped brokers and allow writes."""
        self._faults.clear()
        for broker in self._sandbox.brokers.values():
            broker.skew_ms = 0
            if not broker.permission & Permission.WRITE:
                broker.refuse_writes(False)
            if not broker.is_running:
                await broker.resume()
        return self.report("All faults were cleared: clocks are correct, all brokers run and accept writes.")

    def report(self, *done: str) -> FaultReport:
        """Return what was done and all faults in effect."""
        faults = [_planned(fault) for fault in self._faults.planned]
        for client_id, servers in self._faults.partitions.items():
            faults += [
                FaultStatus("PARTITION", server, client_id=client_id)
                for server in ([None] if servers is None else servers)
            ]
        for broker in self._sandbox.brokers.values():
            if not broker.is_running:
                faults.append(FaultStatus("STOPPED", broker.name))
            if not broker.permission & Permission.WRITE:
                faults.append(FaultStatus("REFUSE_WRITES", broker.name))
            if broker.skew_ms:
                faults.append(FaultStatus("SKEW", broker.name, skew_ms=broker.skew_ms))
        return FaultReport(list(done), faults)

    def _brokers(self, name: str | None) -> list[Broker]:
        brokers = self._sandbox.brokers
        if name is None:
            return list(brokers.values())
        if name not in brokers:
            raise NotFoundError("Broker", name, hint=hint_for(name, brokers))
        return [brokers[name]]

    async def _change(self, broker: Broker, ask: ChangeBroker) -> str:
        name = broker.name
        if ask.change in ("refuse-writes", "allow-writes"):
            is_refused = ask.change == "refuse-writes"
            broker.refuse_writes(is_refused)
            return f"{name} refuses writes." if is_refused else f"{name} accepts writes."
        if ask.change == "skew":
            broker.skew_ms = ask.skew_ms
            return f"The clock of {name} is {_skew(ask.skew_ms)}."
        if ask.change == "stop":
            if broker.is_running:
                await broker.stop()
            return f"{name} is stopped."
        if ask.change == "start" or not broker.is_running:
            if not broker.is_running:
                await broker.resume()
            return f"{name} is running."
        await broker.restart(lose_unflushed=ask.lose_unflushed)
        return f"{name} was restarted{'; unflushed data was lost' if ask.lose_unflushed else ''}."


def _effect(ask: PlanFault) -> Effect:
    if ask.effect == "answer":
        if ask.with_code is None:
            raise UsageError("An answer requires a response code.")
        return AnswerCode(ask.with_code, ask.remark)
    if ask.effect == "delay":
        return Delay(ask.delay_ms / 1000)
    plain: dict[str, Effect] = {"drop": Drop(), "silence": Silence(), "corrupt": Corrupt()}
    return plain[ask.effect]


def _requests(fault: Fault) -> str:
    """Return which requests a fault affects, as the start of a sentence."""
    server = "" if fault.server is None else f" at {fault.server}"
    name = "" if fault.code is None else f"{request_code_name(fault.code)} ({fault.code})"
    if fault.left_count is None:
        return f"Every {name or 'request'}{server}"
    if fault.left_count == 1:
        return f"The next {name or 'request'}{server}"
    return f"The next {fault.left_count} {name or 'requests'}{server}"


def _what_happens(fault: Fault) -> str:
    """Return what a fault does, as the rest of that sentence."""
    effect, is_one = fault.effect, fault.left_count in (None, 1)
    verb = "is" if is_one else "are"
    if isinstance(effect, AnswerCode):
        strikes_sends = fault.code is None or effect.is_handled(fault.code)
        stored = "; the messages of sends are stored" if strikes_sends and effect.code in STORED_CODES else ""
        return f"{verb} answered with {response_code_name(effect.code)} ({effect.code}){stored}"
    if isinstance(effect, Delay):
        return f"{verb} handled {short_duration(round(effect.seconds * 1000))} later"
    if isinstance(effect, Drop):
        return "ends the connection" if is_one else "end the connection"
    if isinstance(effect, Silence):
        return f"{verb} neither handled nor answered"
    return f"{verb} handled and answered with an unreadable frame"


def _skew(skew_ms: int) -> str:
    if skew_ms == 0:
        return "correct"
    return f"{short_duration(abs(skew_ms))} {'ahead' if skew_ms > 0 else 'behind'}"


def _planned(fault: Fault) -> FaultStatus:
    effect = fault.effect
    answer = effect if isinstance(effect, AnswerCode) else None
    return FaultStatus(
        effect.word,
        fault.server,
        request_code=fault.code,
        request=None if fault.code is None else request_code_name(fault.code),
        answer_code=None if answer is None else answer.code,
        answer=None if answer is None else response_code_name(answer.code),
        remark=None if answer is None else answer.text,
        delay_ms=round(effect.seconds * 1000) if isinstance(effect, Delay) else None,
        left_count=fault.left_count,
        struck_count=fault.struck_count,
    )

"""Kills a sandbox with a folder again and again while clients use it, and looks whether anything is missing.

`python -m tests.sandbox.storage.kill_runs FOLDER` is the process that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, ResponseReceived
from rmqctl.protocol.flags import PullFlag
from rmqctl.protocol.message import iter_messages
from rmqctl.protocol.versions import version_ordinal
from rmqctl.sandbox import Sandbox

GROUP = "Kill"
# Messages with a delay level, and with a time of their own.
LATE = {"KillLate": "DELAY\x011\x02", "KillTimed": "TIMER_DELAY_MS\x01500\x02"}
QUEUE_COUNT = 4
_START_TIMEOUT_S = 60.0
# How often it is looked whether all delayed messages have come, every 0.1 s.
_LATE_ATTEMPTS = 200


class GoneError(Exception):
    """The sandbox was killed."""


class Caller:
    """One connection to a server that may be killed at any time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = Connection()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, address: str) -> AsyncIterator[Caller]:
        host, port = address.rsplit(":", 1)
        try:
            caller = cls(*await asyncio.open_connection(host, int(port)))
        except OSError:
            raise GoneError from None
        try:
            yield caller
        finally:
            caller._writer.close()
            await caller._reading
            with contextlib.suppress(OSError):
                await caller._writer.wait_closed()

    async def ask(self, code: int, body: bytes = b"", **fields: object) -> Command:
        if self._reading.done():
            raise GoneError
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        command = Command(code, texts, body, language="JAVA", version=version_ordinal(5, 4, 0))
        opaque, data = self._protocol.send_request(command)
        answer = self._waiting[opaque] = asyncio.get_running_loop().create_future()
        self._writer.write(data)
        return await answer

    async def ask_ok(self, code: int, body: bytes = b"", **fields: object) -> Command:
        answer = await self.ask(code, body, **fields)
        assert answer.code == ResponseCode.SUCCESS, f"request {code}: {answer.code} {answer.remark}"
        return answer

    async def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self._reader.read(1 << 16):
                self._protocol.receive_data(data)
                while (event := self._protocol.next_event()) is not None:
                    if isinstance(event, ResponseReceived):
                        self._waiting.pop(event.command.opaque).set_result(event.command)
        for answer in self._waiting.values():
            if not answer.cancelled():
                answer.set_exception(GoneError())


@dataclass
class Sent:
    """Messages of one request; they must be there when it was answered."""

    bodies: list[bytes]
    is_acknowledged: bool = False


@dataclass
class Offset:
    """What a group's offset may be."""

    acknowledged: int | None = None
    asked: int | None = None


@dataclass
class Ledger:
    """All that clients were told. `found` are the bodies that were read back, by queue of the topic KillN."""

    found: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(QUEUE_COUNT)])
    sent: list[list[Sent]] = field(default_factory=lambda: [[] for _ in range(QUEUE_COUNT)])
    late: dict[str, list[Sent]] = field(default_factory=lambda: {topic: [] for topic in LATE})
    offsets: list[Offset] = field(default_factory=lambda: [Offset() for _ in range(QUEUE_COUNT)])
    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    acknowledged_count: int = 0
    number: int = 0


def run_cycles(folder: Path, cycle_count: int, seed: int) -> Ledger:
    """Start, load and kill a sandbox so many times; what is wrong in the end stands in `wrong`."""
    return asyncio.run(_run_cycles(folder, cycle_count, random.Random(seed)))


async def _run_cycles(folder: Path, cycle_count: int, dice: random.Random) -> Ledger:
    ledger = Ledger()
    for _ in range(cycle_count):
        async with Child.started(folder) as child:
            if dice.random() < 0.1:
                await asyncio.sleep(dice.uniform(0, 0.5))  # killed while it reads what the last one left
                continue
            names, broker = await child.addresses()
            await _check(ledger, names, broker)
            loading = asyncio.ensure_future(_load(ledger, broker, dice))
            await asyncio.sleep(dice.uniform(0.02, 0.6))
            child.kill()
            await loading
        if ledger.wrong:
            return ledger
    async with Child.started(folder) as child:
        names, broker = await child.addresses()
        await _check(ledger, names, broker)
        await _check_all_again(ledger, broker)
        await _check_late(ledger, broker)
    return ledger


class Child:
    """The process that is killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._is_killed = False

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, folder: Path) -> AsyncIterator[Child]:
        command = (sys.executable, "-m", "tests.sandbox.storage.kill_runs", str(folder))
        child = cls(await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE))
        try:
            yield child
        finally:
            child.kill()
            code = await child._process.wait()
            assert code == -signal.SIGKILL, f"the sandbox ended by itself: {code}"

    async def addresses(self) -> list[str]:
        """Wait until it serves; return the addresses of its name server and its broker."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), _START_TIMEOUT_S)
        return line.decode().split()

    def kill(self) -> None:
        if not self._is_killed:
            self._is_killed = True
            self._process.kill()


async def _load(ledger: Ledger, broker: str, dice: random.Random) -> None:
    workers = [_send(ledger, broker, queue_id, dice) for queue_id in range(QUEUE_COUNT)]
    workers += [_send_late(ledger, broker, topic) for topic in LATE]
    workers += [_commit(ledger, broker), _create(ledger, broker)]
    for result in await asyncio.gather(*workers, return_exceptions=True):
        if not isinstance(result, GoneError):
            ledger.wrong.append(f"a client failed: {result!r}")


def _fields(topic: str, queue_id: int, properties: str = "", *, is_batch: bool = False) -> dict[str, object]:
    return {
        "a": "P", "b": topic, "c": "TBW102", "d": QUEUE_COUNT, "e": queue_id, "f": 0, "g": 0, "h": 0,
        "i": properties, "j": 0, "k": False, "m": is_batch,
    }  # fmt: skip


def _batch(bodies: list[bytes]) -> bytes:
    def part(body: bytes) -> bytes:
        size = (22 + len(body)).to_bytes(4, "big")
        return b"".join((size, bytes(12), len(body).to_bytes(4, "big"), body, bytes(2)))

    return b"".join(map(part, bodies))


async def _send(ledger: Ledger, broker: str, queue_id: int, dice: random.Random) -> None:
    """Send one by one and in batches; the next one when the last one is acknowledged."""
    async with Caller.of(broker) as caller:
        while True:
            count = dice.choice((1, 1, 2, 30))
            bodies = []
            for _ in range(count):
                ledger.number += 1
                bodies.append(b"%d.%d" % (queue_id, ledger.number) + b"." * dice.choice((20, 20, 20, 2000)))
            sent = Sent(bodies)
            ledger.sent[queue_id].append(sent)
            fields = _fields("Kill", queue_id, is_batch=count > 1)
            await caller.ask_ok(RequestCode.SEND_MESSAGE_V2, bodies[0] if count == 1 else _batch(bodies), **fields)
            sent.is_acknowledged = True
            ledger.acknowledged_count += count


async def _send_late(ledger: Ledger, broker: str, topic: str) -> None:
    async with Caller.of(broker) as caller:
        while True:
            ledger.number += 1
            sent = Sent([b"late.%d" % ledger.number])
            ledger.late[topic].append(sent)
            await caller.ask_ok(RequestCode.SEND_MESSAGE_V2, sent.bodies[0], **_fields(topic, 0, LATE[topic]))
            sent.is_acknowledged = True
            ledger.acknowledged_count += 1
            await asyncio.sleep(0.005)


async def _commit(ledger: Ledger, broker: str) -> None:
    async with Caller.of(broker) as caller:
        value = max(offset.asked or 0 for offset in ledger.offsets)
        while True:
            value += 1
            offset = ledger.offsets[value % QUEUE_COUNT]
            offset.asked = value
            await caller.ask_ok(
                RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=GROUP, topic="Kill", queueId=value % QUEUE_COUNT,
                commitOffset=value,
            )  # fmt: skip
            offset.acknowledged = value
            ledger.acknowledged_count += 1


async def _create(ledger: Ledger, broker: str) -> None:
    async with Caller.of(broker) as caller:
        while True:
            ledger.number += 1
            name = f"KillNew{ledger.number}"
            await caller.ask_ok(RequestCode.SEND_MESSAGE_V2, b"first", **_fields(name, 0))
            ledger.topics.append(name)
            body = (
                b'{"clientID":"c","consumerDataSet":[{"groupName":"%s","consumeType":"CONSUME_PASSIVELY",'
                % name.encode()
            )
            body += (
                b'"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[]}]}'
            )
            await caller.ask_ok(RequestCode.HEART_BEAT, body)
            ledger.groups.append(name)
            ledger.acknowledged_count += 2
            await asyncio.sleep(0.01)


async def _check(ledger: Ledger, names: str, broker: str) -> None:
    """Compare what came since the last time with what was acknowledged."""
    async with Caller.of(broker) as caller:
        if not ledger.found[0]:
            await caller.ask_ok(RequestCode.SEND_MESSAGE_V2, b"first", **_fields("Kill", 0))
            ledger.found[0].append(b"first")
            body = b'{"clientID":"c","consumerDataSet":[{"groupName":"%s","subscriptionDataSet":[]}]}' % GROUP.encode()
            await caller.ask_ok(RequestCode.HEART_BEAT, body)
            return
        for queue_id in range(QUEUE_COUNT):
            found = await _pull(caller, "Kill", queue_id, len(ledger.found[queue_id]))
            ledger.wrong += _compare(f"queue {queue_id}", found, ledger.sent[queue_id])
            ledger.found[queue_id] += found
            ledger.sent[queue_id] = [Sent([])]
            await _check_offset(ledger, caller, queue_id)
    async with Caller.of(names) as caller:
        for topic in ledger.topics:
            answer = await caller.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
            if answer.code != ResponseCode.SUCCESS:
                ledger.wrong.append(f"topic {topic} is gone")
    await _check_groups(ledger, broker)


async def _check_offset(ledger: Ledger, caller: Caller, queue_id: int) -> None:
    expected = ledger.offsets[queue_id]
    answer = await caller.ask(
        RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=GROUP, topic="Kill", queueId=queue_id, setZeroIfNotFound=False
    )
    stored = int(answer.ext_fields["offset"]) if answer.code == ResponseCode.SUCCESS else None
    if stored not in (expected.acknowledged, expected.asked):
        ledger.wrong.append(f"offset of queue {queue_id}: {stored} instead of {expected.acknowledged}")
    expected.acknowledged = expected.asked = stored


async def _check_groups(ledger: Ledger, broker: str) -> None:
    async with Caller.of(broker) as caller:
        for name in ledger.groups:
            # 5.x stores no offset of a group that has no configuration.
            answer = await caller.ask(
                RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=name, topic="Kill", queueId=0, commitOffset=1
            )
            if answer.code != ResponseCode.SUCCESS:
                ledger.wrong.append(f"group {name} is gone: {answer.remark}")
        # Each is looked at once.
        ledger.topics.clear()
        ledger.groups.clear()


async def _check_all_again(ledger: Ledger, broker: str) -> None:
    """Read everything from the beginning."""
    async with Caller.of(broker) as caller:
        for queue_id in range(QUEUE_COUNT):
            if await _pull(caller, "Kill", queue_id, 0) != ledger.found[queue_id]:
                ledger.wrong.append(f"queue {queue_id} is not what it was")


async def _check_late(ledger: Ledger, broker: str) -> None:
    """Delayed messages must have come once, in the order in which they were sent."""
    async with Caller.of(broker) as caller:
        for topic, sent in ledger.late.items():
            due_count = sum(each.is_acknowledged for each in sent)
            for _ in range(_LATE_ATTEMPTS):
                if len(await _pull(caller, topic, 0, 0)) >= due_count:
                    break
                await asyncio.sleep(0.1)
        # Whatever might come twice would have come by then.
        await asyncio.sleep(1.2)
        for topic, sent in ledger.late.items():
            ledger.wrong += _compare(topic, await _pull(caller, topic, 0, 0), sent)


async def _pull(caller: Caller, topic: str, queue_id: int, offset: int) -> list[bytes]:
    bodies: list[bytes] = []
    while True:
        answer = await caller.ask(
            RequestCode.PULL_MESSAGE, consumerGroup="KillReader", topic=topic, queueId=queue_id,
            queueOffset=offset + len(bodies), maxMsgNums=32, sysFlag=int(PullFlag.SUBSCRIPTION), commitOffset=0,
            suspendTimeoutMillis=0, subscription="*", subVersion=0, expressionType="TAG",
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            return bodies
        messages = list(iter_messages(answer.body))
        assert [each.queue_offset for each in messages] == list(
            range(offset + len(bodies), offset + len(bodies) + len(messages))
        )
        bodies += [each.body for each in messages]


def _compare(what: str, found: list[bytes], sent: list[Sent]) -> list[str]:
    """Say what is missing, twice or out of order. What was not acknowledged may be there, or the beginning of it."""
    at = 0
    for number, each in enumerate(sent):
        there = 0
        while there < len(each.bodies) and at < len(found) and found[at] == each.bodies[there]:
            at, there = at + 1, there + 1
        if each.is_acknowledged and there < len(each.bodies):
            missing = each.bodies[there][:30]
            return [f"{what}: request {number} of {len(sent)}: {missing!r} is missing; found {found[at : at + 1]}"]
    return [f"{what}: {found[at]!r} is too much"] if at < len(found) else []


async def _serve(folder: Path) -> None:
    settings = {"messageDelayLevel": "1s 2s", "flushIntervalCommitLog": "100"}
    async with Sandbox(dir=folder, queues=QUEUE_COUNT, settings=settings) as sandbox:
        print(sandbox.addr, sandbox.brokers["broker-a"].address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))

"""A group has either orderly or concurrent members."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.consumer.guards.group_order import GroupOrder
from rmqctl.consumer.reports.problems import Problems
from rmqctl.consumer.routes import Routes
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import RefusedError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.consumer.group import OWN_ID, ScriptedGroup
from tests.scripted_peer import SILENCE, ok, passing, refused, run

JAVA, SECOND = "10.0.0.7@java", "10.0.0.8@java"


def _says(orderly: str | None) -> Command:
    properties = {"PROP_CONSUME_TYPE": "x"} | ({} if orderly is None else {"PROP_CONSUMEORDERLY": orderly})
    return ok(json.dumps({"properties": properties}).encode())


class _Asking:
    """A member of a scripted group, whose other members answer the same until they are changed."""

    def __init__(self) -> None:
        self.group = ScriptedGroup(2)
        self.reports: list[str] = []

    @asynccontextmanager
    async def running(self, *, is_orderly: bool) -> AsyncIterator[_Asking]:
        async with self.group.client() as client:
            routes = Routes(FreshRoutes(client))
            await routes.refresh(["T"])
            self.problems = Problems(lambda problem: self.reports.append(problem.sentence), client.clock)
            settings = ConsumerSettings(group="G", is_orderly=is_orderly)
            self.order = GroupOrder(client, settings, OWN_ID, routes, self.problems)
            yield self

    def says(self, reply: Any, *, at: tuple[int, ...] = (0, 1)) -> None:
        for number in at:
            self.group.brokers[number].master.table[Q.GET_CONSUMER_RUNNING_INFO] = reply

    def asked(self) -> int:
        return sum(broker.master.codes().count(Q.GET_CONSUMER_RUNNING_INFO) for broker in self.group.brokers)

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            await self.group.clock.advance(1)
            self.problems.look()


def _asking(work: Callable[[_Asking], Coroutine[Any, Any, None]], *, is_orderly: bool = True) -> None:
    async def go() -> None:
        async with _Asking().running(is_orderly=is_orderly) as asking:
            await work(asking)

    run(go())


@pytest.mark.parametrize(
    ("is_orderly", "reply", "is_refused"),
    [
        (True, _says("false"), True),
        (False, _says("true"), True),
        (True, _says("true"), False),
        (False, _says("false"), False),
        (True, _says(None), False),
        (False, _says(None), False),
        (True, SILENCE, False),
        (True, refused(R.SYSTEM_ERROR, "no"), False),
    ],
    ids=["concurrent", "orderly", "both orderly", "both concurrent", "a pull client", "it too", "silent", "refused"],
)
def test_a_member_of_the_other_kind_is_not_joined(is_orderly: bool, reply: Any, is_refused: bool) -> None:
    async def work(asking: _Asking) -> None:
        asking.says(refused(R.SYSTEM_ERROR, "not online"), at=(0,))
        asking.says(reply, at=(1,))
        checking = asking.order.check([OWN_ID, JAVA], force=False)
        if is_refused:
            with pytest.raises(RefusedError, match=JAVA):
                await passing(asking.group.clock, checking)
            await passing(asking.group.clock, asking.order.check([OWN_ID, JAVA], force=True))
        else:
            await passing(asking.group.clock, checking)
        assert asking.group.clock.monotonic_s() <= 4

    _asking(work, is_orderly=is_orderly)


def test_who_comes_later_is_asked_once_and_reported_while_it_stays() -> None:
    async def work(asking: _Asking) -> None:
        asking.says(_says("true"))
        await passing(asking.group.clock, asking.order.check([JAVA], force=False))
        running = asyncio.ensure_future(asking.order.run())
        await asking.passes(20)
        assert (asking.asked(), asking.reports) == (1, [])
        asking.says(SILENCE)
        asking.order.saw([OWN_ID, JAVA, SECOND])
        await asking.passes(10)
        assert asking.reports == []
        asking.says(_says("false"))
        await asking.passes(10)
        (report,) = asking.reports
        assert report.startswith(f"{SECOND}: consumes concurrently")
        asked = asking.asked()
        for _ in range(10):
            asking.order.saw([OWN_ID, JAVA, SECOND])
            await asking.passes(10)
        assert (asking.asked(), asking.reports) == (asked, [report] * 2)
        # What no broker lists is unknown, not gone.
        await asking.passes(100)
        assert set(asking.reports) == {report}
        for _ in range(8):
            asking.order.saw([OWN_ID, JAVA])
            await asking.passes(10)
        assert asking.reports[-1].startswith("No member consumes concurrently any more")
        running.cancel()

    _asking(work)


def test_who_does_not_report_is_reported_once() -> None:
    async def work(asking: _Asking) -> None:
        asking.says(ok(b""))
        asking.order.saw([OWN_ID, JAVA])
        running = asyncio.ensure_future(asking.order.run())
        await asking.passes(100)
        (report,) = asking.reports
        assert report.startswith(f"{JAVA} does not report")
        running.cancel()

    _asking(work, is_orderly=False)

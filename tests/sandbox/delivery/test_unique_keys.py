"""Ids for messages that come without one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.delivery.unique_keys import new_unique_key
from tests.sandbox.peer import Peer
from tests.sandbox.sender import read, send

_HOST = (bytes((127, 0, 0, 1)), 10911)


def _ms(day: int) -> int:
    return round(datetime(2026, 1, day, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(("day", "time"), [(1, "00000000"), (2, "05265C00"), (31, "9A7EC800")])
def test_the_time_is_counted_from_the_start_of_the_month_to_its_last_day(day: int, time: str) -> None:
    key = new_unique_key(_HOST, _ms(day))
    assert key.startswith("7F000001" + "2A9F" + "00000000" + time)
    assert len(key) == 32


def test_no_two_are_the_same() -> None:
    assert len({new_unique_key(_HOST, _ms(3)) for _ in range(1000)}) == 1000


async def test_messages_without_an_id_are_taken_at_the_end_of_a_month_too() -> None:
    async with Sandbox(clock=VirtualClock(_ms(30))) as sandbox:
        peer = await Peer.of_broker(sandbox)
        assert (await send(peer, "T")).code == ResponseCode.SUCCESS
        (message,) = await read(peer, "T")
        assert len(message.properties["UNIQ_KEY"]) == 32

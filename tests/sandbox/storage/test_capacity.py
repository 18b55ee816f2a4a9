"""How much a sandbox keeps: the oldest messages go when there is more."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.storage.disk_log import find_segments
from tests.sandbox.peer import Peer

CAPACITY_BYTES = 200_000


@pytest.mark.parametrize("on_disk", [False, True])
async def test_the_oldest_messages_go_and_offsets_move(tmp_path: Path, on_disk: bool) -> None:
    place = {"dir": tmp_path} if on_disk else {}
    async with Sandbox(clock=VirtualClock(), capacity_bytes=CAPACITY_BYTES, **place) as sandbox:
        broker = sandbox.brokers["broker-a"]
        peer = await Peer.of_broker(sandbox)
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 0, "h": 0, "j": 0, "m": False}
        for number in range(400):
            await peer.ask_ok(
                RequestCode.SEND_MESSAGE_V2,
                b"." * 1024,
                i=f"KEYS\x01k{number}\x02UNIQ_KEY\x01u{number}\x02",
                **fields,
            )
        low = await peer.ask_ok(RequestCode.GET_MIN_OFFSET, topic="T", queueId=0)
        high = await peer.ask_ok(RequestCode.GET_MAX_OFFSET, topic="T", queueId=0)
        assert high.ext_fields["offset"] == "400"
        min_offset = int(low.ext_fields["offset"])
        assert 400 - CAPACITY_BYTES // 1024 < min_offset < 400 - CAPACITY_BYTES * 3 // 4 // 1200
        log = broker.store.log
        assert log.end - log.start <= CAPACITY_BYTES
        assert sum(segment.size_bytes for segment in log.segments) == log.end - log.start
        assert list(broker.store.index.newest_first("T", "k0")) == []
        assert len(list(broker.store.index.newest_first("T", "u399"))) == 1
        first = broker.store.message_at("T", 0, min_offset)
        assert first is not None
        assert first.properties["KEYS"] == f"k{min_offset}"
        if on_disk:
            files = find_segments(tmp_path / "broker-a" / "commitlog")
            assert sum(path.stat().st_size for path in files) <= CAPACITY_BYTES
        await peer.aclose()

"""`whatif expiry`: RocketMQ's periodic look beside an exact timer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.cli.whatif.expiry import to_listing
from rmqctl.observe.stuck_scan import StuckScan, scan_group
from tests.cli.calls import call
from tests.observe.test_stuck_scan import NOW_MS, cluster, member
from tests.scripted_peer import passing, run

Captured = pytest.CaptureFixture[str]


def test_messages_that_hang_at_once(capsys: Captured) -> None:
    done = call(capsys, "whatif", "expiry", "--messages", "17", "--consume-timeout", "10m", "-o", "json")
    items = json.loads(done.out)["items"]
    assert (done.code, len(items), {item["exactMs"] for item in items}) == (0, 17, {600_000})
    assert (items[0]["rocketmqBestMs"], items[15]["rocketmqWorstMs"]) == (600_001, 1_200_000)
    assert items[16]["rocketmqWorstMs"] == 1_800_000


def _scan(**properties: str) -> StuckScan:
    servers = cluster(member(quiet_ms=60_000, properties=properties))

    async def main() -> StuckScan:
        async with servers.client(open_ended=True) as client:
            return await passing(servers.clock, scan_group(client, "G", window_s=1.0))

    return run(main())


@pytest.mark.parametrize(
    ("properties", "rocketmq_ms", "reason"),
    [
        # The client began 10 min ago: it looks in 5 min, when the message is 6 min old, and again 15 min later.
        ({}, 1_260_000, None),
        ({"PROP_CONSUMEORDERLY": "true"}, None, "CONSUMED_IN_ORDER"),
        ({"PROP_CONSUMER_START_TIMESTAMP": ""}, None, "NOT_REPORTED"),
    ],
)
def test_what_a_client_has_in_hand(properties: dict[str, str], rocketmq_ms: int | None, reason: str | None) -> None:
    told = {"consumeTimeout": "15", "PROP_CONSUMER_START_TIMESTAMP": str(NOW_MS - 600_000), **properties}
    item: Any
    (item,) = to_listing(_scan(**told), None).items
    assert (item["rocketmqMs"], item["reasons"].get("rocketmqMs")) == (rocketmq_ms, reason)
    if rocketmq_ms is not None:
        assert item["laterMs"] == rocketmq_ms - 900_000
        assert 290_000 < item["nextLookInMs"] <= 300_000
        # In hand for 1 to 10 min: too young for the next look, whatever it is.
        assert item["sentBackInAtLeastMs"] == item["sentBackInAtMostMs"] == item["nextLookInMs"] + 900_000


def test_what_an_application_has_not_polled_is_not_in_hand() -> None:
    assert not to_listing(_scan(PROP_CONSUME_TYPE="CONSUME_ACTIVELY"), None).items

"""What each scenario leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from rmqctl.errors import DeadlineError
from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.scenarios.client import ScriptedClient
from rmqctl.sandbox.scenarios.consumer import ScenarioConsumer
from rmqctl.sandbox.scenarios.producer import ScenarioProducer
from rmqctl.sandbox.scenarios.seeded_group import SeededGroup
from rmqctl.sandbox.scenarios.table import SCENARIOS


def _lags(sandbox: Sandbox, group: str, topic: str) -> list[int]:
    return [
        queue.max_offset - (broker.offsets.find(group, topic, queue_id) or 0)
        for broker in sandbox.brokers.values()
        for queue_id, queue in broker.store.queues[topic].items()
    ]


def _members(broker: Broker, group: str) -> list[str]:
    found = broker.consumers.find(group)
    return [] if found is None else sorted(found.client_ids)


async def test_a_healthy_group_has_no_lag_and_two_members_at_each_broker() -> None:
    async with Sandbox(brokers=2) as sandbox:
        made = await SCENARIOS["healthy"].run(sandbox)
        assert made == [SeededGroup("stock", "warehouse", 200, "two consumers are up to date")]
        assert _lags(sandbox, "warehouse", "stock") == [0] * 8
        for broker in sandbox.brokers.values():
            assert _members(broker, "warehouse") == ["warehouse-a", "warehouse-b"]


async def test_in_a_disagreeing_group_the_slow_member_lags_and_the_newest_subscription_rules() -> None:
    async with Sandbox(brokers=2) as sandbox:
        await SCENARIOS["disagreeing"].run(sandbox)
        assert max(_lags(sandbox, "billing", "orders")) >= 20
        group = sandbox.brokers["broker-a"].consumers.find("billing")
        assert group is not None
        assert len(group.members) == 3
        assert group.subscriptions["orders"].expression == "paid || refunded"


async def test_failed_messages_become_dead_letters() -> None:
    async with Sandbox() as sandbox:
        await SCENARIOS["dead-letters"].run(sandbox)
        store = sandbox.brokers["broker-a"].store
        assert store.max_offset("%DLQ%accounting", 0) == 12
        dead = store.message_at("%DLQ%accounting", 0, 0)
        assert dead is not None
        assert dead.properties["RETRY_TOPIC"] == "payments"
        assert b"expired" in dead.body


async def test_an_offline_group_is_behind_by_messages_of_two_hours() -> None:
    async with Sandbox() as sandbox:
        await SCENARIOS["lagging"].run(sandbox)
        broker = sandbox.brokers["broker-a"]
        await sandbox.await_idle()
        assert _members(broker, "shipping") == []
        assert sum(_lags(sandbox, "shipping", "parcels")) == 200
        first = broker.store.message_at("parcels", 0, 0)
        assert first is not None
        assert 7100 < (broker.now_ms() - first.stored_at_ms) / 1000 < 7300
        assert broker.skew_ms == 0


async def test_a_stuck_message_holds_its_queue_and_no_other() -> None:
    async with Sandbox() as sandbox:
        await SCENARIOS["stuck"].run(sandbox)
        lags = sorted(_lags(sandbox, "mailing", "invoices"))
        assert lags[:3] == [0, 0, 0]
        assert lags[3] == 15
        # It counts as stuck at once: it was stored three minutes ago, by a clock that is right again.
        broker = sandbox.brokers["broker-a"]
        first = broker.store.message_at("invoices", 0, 0)
        assert first is not None
        assert (broker.now_ms() - first.stored_at_ms) / 1000 >= 180
        assert broker.skew_ms == 0
        assert len(_members(broker, "mailing")) == 2


async def test_all_of_them_fit_into_one_sandbox() -> None:
    async with Sandbox(brokers=2, plays="4.9.7") as sandbox:
        assert len(await SCENARIOS["shop"].run(sandbox)) == 5
        for broker in sandbox.brokers.values():
            for topic in ("stock", "orders", "payments", "parcels", "invoices"):
                for queue in broker.store.queues[topic].values():
                    assert list(queue.stored_at_ms) == sorted(queue.stored_at_ms)


async def test_what_a_fault_kept_from_happening_is_not_said_to_have_happened() -> None:
    async with Sandbox() as sandbox:
        sandbox.faults.silence(RequestCode.PULL_MESSAGE, count=None)
        seeding = asyncio.create_task(SCENARIOS["healthy"].run(sandbox))
        while not seeding.done():
            await asyncio.sleep(0)
            await sandbox.advance(1)
        (made,) = seeding.result()
        assert "incomplete after 10 s" in made.summary


async def test_consumers_go_on_after_a_restart_of_their_broker_and_leave_no_connection_behind() -> None:
    async with Sandbox() as sandbox:
        await SCENARIOS["healthy"].run(sandbox)
        broker = sandbox.brokers["broker-a"]
        await broker.restart()
        producer = ScenarioProducer(sandbox)
        for number in range(20):
            await producer.send("stock", f"after {number}")
        await producer.aclose()
        # With the next heartbeat the broker knows the group again.
        await sandbox.advance(31)
        while sum(_lags(sandbox, "warehouse", "stock")) or len(_members(broker, "warehouse")) < 2:
            await sandbox.advance(1)
        assert _members(broker, "warehouse") == ["warehouse-a", "warehouse-b"]
        assert len(broker.server.channels) == 2
        while sandbox.guests:
            await sandbox.guests.pop().aclose()
        await sandbox.await_idle()
        assert not broker.server.channels


async def test_a_question_that_is_never_answered_ends_in_a_while() -> None:
    async with Sandbox() as sandbox:
        sandbox.faults.silence(RequestCode.GET_MAX_OFFSET)
        client = ScriptedClient(sandbox.clock, sandbox.profile.version, lambda _: None)
        address = sandbox.brokers["broker-a"].address
        asking = asyncio.ensure_future(client.ask(address, RequestCode.GET_MAX_OFFSET, topic="T", queueId=0))
        while not asking.done():
            await sandbox.advance(1)
        with pytest.raises(DeadlineError):
            asking.result()
        await client.aclose()


async def test_what_was_consumed_is_counted_also_when_a_queue_changes_hands_meanwhile() -> None:
    async with Sandbox() as sandbox:
        producer = ScenarioProducer(sandbox)
        producer.create_topic("T", 1)
        for number in range(20):
            await producer.send("T", str(number))
        await producer.aclose()
        # While the first one is at work, the second one joins, which comes first by its name.
        first = ScenarioConsumer(sandbox, "b", "g", "T", work_s=1.0)
        second = ScenarioConsumer(sandbox, "a", "g", "T", work_s=1.0)
        sandbox.guests += [first, second]
        await first.start()
        await sandbox.advance(5)
        await second.start()
        for _ in range(60):
            await sandbox.advance(1)
        assert first.consumed_count > 0
        assert first.consumed_count + second.consumed_count >= 20

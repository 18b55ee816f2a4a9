"""Orderly pops: a queue is held until all of it is acknowledged, or its time is over."""

from __future__ import annotations

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.sandbox.pop.test_pop import POP, acknowledge, bodies, change, pop_fields, send, stored_offset


def orderly(sandbox: Sandbox, **changes: object) -> dict[str, object]:
    return pop_fields(sandbox, order="true", queueId=0, **changes)


async def test_a_queue_is_held_until_all_is_acknowledged_and_waiting_pops_hear_of_it() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, waiting = await Peer.of_broker(sandbox), await Peer.of_broker(sandbox)
        await send(peer, *"abc")
        popped = await peer.ask_ok(POP, **orderly(sandbox, maxMsgNums=2))
        assert popped.ext_fields["reviveQid"] == "999"
        assert await stored_offset(peer) == "0"
        answer = waiting.start(POP, **orderly(sandbox, pollTime=15_000))
        await sandbox.await_idle()
        await acknowledge(peer, popped, 0, 1)
        assert await stored_offset(peer) == "0"
        assert not answer.done()
        await acknowledge(peer, popped, 0, 0)
        await sandbox.await_idle()
        assert await stored_offset(peer) == "2"
        assert bodies(answer.result()) == ["c"]
        for each in (peer, waiting):
            await each.aclose()


async def test_what_is_not_acknowledged_in_time_is_given_out_again_and_counted() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, *"ab")
        popped = await peer.ask_ok(POP, **orderly(sandbox, maxMsgNums=1, invisibleTime=10_000))
        assert popped.ext_fields["orderCountInfo"] == "0 0 0"
        answer = peer.start(POP, **orderly(sandbox, pollTime=15_000, invisibleTime=10_000))
        await sandbox.advance(9.9)
        assert not answer.done()
        await sandbox.advance(0.1)
        assert bodies(answer.result()) == ["a", "b"]
        assert answer.result().ext_fields["orderCountInfo"] == "0 qo0%0 1;0 0 0"
        await sandbox.advance(10)
        again = await peer.ask_ok(POP, **orderly(sandbox))
        assert again.ext_fields["orderCountInfo"] == "0 qo0%0 2;0 qo0%1 1;0 0 1"
        # No retry topic: the order would be lost.
        assert not [name for name in sandbox.brokers["broker-a"].topics.topics if name.startswith("%RETRY%")]
        await peer.aclose()


async def test_one_attempt_may_pop_its_queue_again_and_is_counted_once() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a")
        for _ in range(2):
            answer = await peer.ask_ok(POP, **orderly(sandbox, attemptId="one"))
            assert answer.ext_fields["orderCountInfo"] == "0 0 0"
        other = await peer.ask(POP, **orderly(sandbox, attemptId="other"))
        assert other.code == ResponseCode.POLLING_TIMEOUT
        await peer.aclose()


async def test_a_changed_time_frees_the_queue_earlier_and_keeps_the_handle() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a")
        popped = await peer.ask_ok(POP, **orderly(sandbox))
        waiting = peer.start(POP, **orderly(sandbox, pollTime=15_000))
        await sandbox.advance(2)
        changed = await change(peer, popped, 0, 1000)
        assert changed.ext_fields == {
            "popTime": popped.ext_fields["popTime"], "invisibleTime": "3000", "reviveQid": "999"
        }  # fmt: skip
        assert not waiting.done()
        await sandbox.advance(1)
        assert bodies(waiting.result()) == ["a"]
        await peer.aclose()


async def test_a_queue_is_still_held_after_a_restart() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, *"ab")
        popped = await peer.ask_ok(POP, **orderly(sandbox))
        await acknowledge(peer, popped, 0, 0)
        await sandbox.brokers["broker-a"].restart()
        peer = await Peer.of_broker(sandbox)
        assert (await peer.ask(POP, **orderly(sandbox))).code == ResponseCode.POLLING_TIMEOUT
        await acknowledge(peer, popped, 0, 1)
        assert await stored_offset(peer) == "2"
        await peer.aclose()


async def test_a_message_that_was_not_given_out_can_not_be_acknowledged() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, *"ab")
        popped = await peer.ask_ok(POP, **orderly(sandbox, maxMsgNums=1))
        refused = await acknowledge(peer, popped, 0, 1)
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert (refused.remark or "").startswith("offset is illegal, key:T@G@0, old:0, commit:1, next:-1, /")
        await peer.aclose()


async def test_a_queue_that_is_set_free_is_popped_at_once() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, "a")
        await peer.ask_ok(POP, **orderly(sandbox))
        waiting = peer.start(POP, **orderly(sandbox, pollTime=15_000))
        await sandbox.await_idle()
        sandbox.brokers["broker-a"].pop.forget_queue("T", "G", 0)
        await sandbox.await_idle()
        assert bodies(waiting.result()) == ["a"]
        await peer.aclose()


async def test_queues_of_a_topic_or_a_group_that_was_deleted_are_held_no_more() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_broker(sandbox)
        await send(peer, *"ab")
        assert bodies(await peer.ask_ok(POP, **orderly(sandbox))) == ["a", "b"]
        await peer.ask_ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        await send(peer, *"cd")
        popped = await peer.ask_ok(POP, **orderly(sandbox))
        assert (bodies(popped), popped.ext_fields["orderCountInfo"]) == (["c", "d"], "0 0 0")
        await peer.ask_ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G")
        assert bodies(await peer.ask_ok(POP, **orderly(sandbox))) == ["c", "d"]
        await peer.aclose()

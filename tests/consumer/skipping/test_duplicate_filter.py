"""Which messages a member recognises as duplicates."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.skipping.duplicate_filter import DuplicateFilter
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from tests.consumer.consumer_cluster import Cluster, Seen, scenario
from tests.consumer.consumer_parts import MQ, message

OTHER, RETRY = MessageQueue("T", "broker-b", 0), MessageQueue("%RETRY%G", "broker-a", 0)


class _Scene:
    def __init__(self, most_count: int = 100) -> None:
        self.filter = DuplicateFilter(most_count)
        self._queues: dict[MessageQueue, ProcessQueue] = {}
        self._offset = 0

    def pull(self, key: str, mq: MessageQueue = MQ) -> tuple[ProcessQueue, StoredMessage, str]:
        """Put a message into a queue; return it with what becomes of it."""
        self._offset += 1
        queue = self._queues.setdefault(mq, ProcessQueue(mq))
        pulled = message(self._offset, **({"UNIQ_KEY": key} if key else {}))
        queue.put([pulled])
        return queue, pulled, self.sort(queue, pulled)

    def sort(self, queue: ProcessQueue, pulled: StoredMessage) -> str:
        wanted, duplicates = self.filter.sort(queue, [pulled])
        return "consume" if wanted else "skip" if duplicates else "wait"

    def consume(self, key: str, mq: MessageQueue = MQ) -> str:
        """Pull a message, and have it succeed if it is consumed."""
        queue, pulled, what = self.pull(key, mq)
        if what == "consume":
            queue.remove([pulled])
            self.filter.succeeded(mq, [pulled])
        return what


def test_what_succeeded_is_skipped_in_any_queue_and_messages_without_a_key_never() -> None:
    on = _Scene()
    assert [on.consume("k"), on.consume("k", OTHER), on.consume("k", RETRY), on.consume("other")] == [
        "consume", "skip", "skip", "consume",
    ]  # fmt: skip
    assert [on.consume(""), on.consume("")] == ["consume", "consume"]


def test_only_the_last_keys_are_remembered() -> None:
    on = _Scene(2)
    for key in "abc":
        on.consume(key)
    assert [on.pull(key)[2] for key in "abc"] == ["consume", "skip", "skip"]


def _succeed(on: _Scene, queue: ProcessQueue, pulled: StoredMessage) -> None:
    queue.remove([pulled])
    on.filter.succeeded(queue.mq, [pulled])


def _fail(_: _Scene, queue: ProcessQueue, pulled: StoredMessage) -> None:
    queue.remove([pulled])  # sent back


def _lose(_: _Scene, queue: ProcessQueue, __: StoredMessage) -> None:
    queue.drop()


def test_a_copy_waits_for_the_result_of_the_first() -> None:
    ends: list[tuple[Callable[[_Scene, ProcessQueue, StoredMessage], None], str]] = [
        (_succeed, "skip"), (_fail, "consume"), (_lose, "consume"),
    ]  # fmt: skip
    for end, then in ends:
        on = _Scene()
        queue, first, what = on.pull("k")
        other, copy, waits = on.pull("k", OTHER)
        assert (what, waits, on.filter.has_waiting, on.filter.release()) == ("consume", "wait", True, [])
        end(on, queue, first)
        assert on.filter.release() == [(other, copy)]
        assert (on.sort(other, copy), on.filter.has_waiting) == (then, False)


def test_a_copy_whose_queue_is_lost_waits_no_longer() -> None:
    on = _Scene()
    on.pull("k")
    other, _, _ = on.pull("k", OTHER)
    other.drop()
    assert (on.filter.has_waiting, on.filter.release()) == (False, [])


def test_a_reset_has_its_queue_consumed_again_and_no_other() -> None:
    on = _Scene()
    for key, mq in (("mine", MQ), ("others", OTHER), ("retried", RETRY)):
        on.consume(key, mq)
    on.filter.forget(MQ)
    assert [on.pull(key)[2] for key in ("mine", "others", "retried")] == ["consume", "skip", "consume"]


def test_a_member_skips_duplicates_and_consumes_a_failed_one_again() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send("a", "b", "a")
        seen = Seen({"a": [ValueError("first")]})
        consumer = await cluster.started(seen, dedup_count=10, worker_count=1)
        await cluster.passes(30)
        # The second copy is consumed, as the first one failed; the retry of that is skipped.
        assert sorted(seen.bodies) == ["a", "a", "b"]
        assert (consumer.counts.ok, consumer.counts.failed, consumer.counts.skipped) == (2, 1, 1)
        assert cluster.stored() == {0: 3}
        assert consumer.is_idle

    scenario(work)

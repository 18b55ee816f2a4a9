from __future__ import annotations

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, QueueData, TopicRoute


def test_a_broker_is_read_at_its_master_first_then_at_its_slaves_by_id() -> None:
    broker = BrokerData("C", "broker-a", {2: "s2:1", 0: "m:1", 1: "s1:1"})
    assert broker.read_addresses == ("m:1", "s1:1", "s2:1")
    assert broker.master_address == "m:1"
    assert BrokerData("C", "broker-a", {1: "s1:1"}).master_address is None


def test_consumers_share_the_readable_queues_sorted_by_broker_and_number() -> None:
    data = (
        QueueData("b", 2, 4, is_readable=True, is_writable=True),
        QueueData("a", 11, 1, is_readable=True, is_writable=False),
        QueueData("c", 8, 8, is_readable=False, is_writable=True),
    )
    queues = TopicRoute("T", data, ()).readable_queues()
    assert queues == (
        *(MessageQueue("T", "a", number) for number in range(11)),
        MessageQueue("T", "b", 0),
        ("T", "b", 1),
    )


def test_a_queue_is_written_with_its_broker_and_number() -> None:
    assert str(MessageQueue("T", "broker-a", 3)) == "T@broker-a:3"

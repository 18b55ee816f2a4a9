from __future__ import annotations

import pytest

from rmqctl.observe.rules.stack_dumps import ListenerThread, listener_threads

_NAME = "ConsumeMessageThread_orders_1"


def _paragraph(name: str, state: str, *frames: str) -> str:
    return "".join(f"{name:<40}{line}\n" for line in (f"TID: 55 STATE: {state}", *frames)) + "\n"


_CALLER = (
    "app//org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService$ConsumeRequest.run(C.java:411)"
)
_POOL = "java.base@17.0.15/java.lang.Thread.run(Thread.java:840)"
_PARKED = "java.base@17.0.15/jdk.internal.misc.Unsafe.park(Native Method)"
_USERS = ("java.base@17.0.15/java.lang.Thread.sleep(Native Method)", "app//com.shop.Bill.consumeMessage(Bill.java:12)")
_HANGS = _paragraph(_NAME, "TIMED_WAITING", *_USERS, _CALLER, _POOL)


def test_threads_in_the_listener_are_told_from_others() -> None:
    dump = (
        _paragraph("main", "RUNNABLE", "app//com.shop.Main.main(Main.java:3)")
        + _HANGS
        + _paragraph("ConsumeMessageThread_orders_2", "WAITING", _PARKED, _POOL)
        # It sends a message back, which is the client's own doing.
        + _paragraph(
            "ConsumeMessageThread_orders_3", "WAITING", _PARKED,
            "app//org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService.sendMessageBack(C.java:1)",
            _CALLER,
        )
    )  # fmt: skip
    assert listener_threads(dump, "orders") == [ListenerThread(_NAME, "TIMED_WAITING", _USERS)]


def _named(name: str) -> str:
    return _HANGS.replace(f"{_NAME:<40}", f"{name:<40}")


@pytest.mark.parametrize(
    ("group", "name", "is_own"),
    [
        ("orders", "ConsumeMessageThread_orders_1", True),
        ("orders", "ConsumeMessageThread_orders_12", True),
        ("5", "ConsumeMessageThread_5_1", True),
        # Other groups of the same process, None: not this group's.
        ("orders", "ConsumeMessageThread_orders_eu_1", None),
        ("orders", "ConsumeMessageThread_orders__1", None),
        ("orders", "ConsumeMessageThread_x_Thread_orders_1", None),
        ("a", "ConsumeMessageThread_a_1_2", None),
        ("a_1", "ConsumeMessageThread_a_1", None),
        ("a_1", "ConsumeMessageThread_a_1_2", True),
        ("%2", "ConsumeMessageThread_22_1", None),
        # Of old clients, and of a listener that renames its thread.
        ("orders", "ConsumeMessageThread_1", False),
        ("orders", "billing-worker", False),
        # Java has 100 characters of the group in the name: another group may begin with the same ones.
        ("g" * 120, f"ConsumeMessageThread_{'g' * 100}_1", False),
        ("g" * 100, f"ConsumeMessageThread_{'g' * 100}_1", False),
        ("g" * 99, f"ConsumeMessageThread_{'g' * 99}_1", True),
        ("g" * 99, f"ConsumeMessageThread_{'g' * 100}_1", None),
    ],
)
def test_whose_a_thread_is(group: str, name: str, is_own: bool | None) -> None:
    threads = listener_threads(_named(name), group) or []
    assert [each.is_own for each in threads] == ([] if is_own is None else [is_own])
    assert {each.state for each in threads} <= {"TIMED_WAITING"}


@pytest.mark.parametrize("service", ["ConsumeMessagePopConcurrentlyService", "ConsumeMessagePopOrderlyService"])
@pytest.mark.parametrize("name", ["ConsumeMessageThread_1", _NAME])
def test_a_listener_of_popped_messages_has_no_pulled_ones(service: str, name: str) -> None:
    popping = _named(name).replace("ConsumeMessageConcurrentlyService", service)
    assert listener_threads(popping, "orders") == []
    assert [each.is_own for each in listener_threads(popping + _named("ConsumeMessageThread_orders_2"), "orders") or ()]


def test_two_consumers_of_a_group_in_one_process() -> None:
    """Each numbers its threads from 1 on: which of them is in a listener of the member is unknown."""
    idle = _paragraph(_NAME, "WAITING", _PARKED, _POOL)
    assert [each.is_own for each in listener_threads(_HANGS + idle, "orders") or ()] == [False]


def test_orderly_listeners_and_our_own() -> None:
    orderly = _HANGS.replace("ConcurrentlyService", "OrderlyService")
    assert len(listener_threads(orderly, "orders") or ()) == 1
    frames = ("shop.handler.consume(handler.py:7)", "rmqctl.consumer.workers.ThreadWorkers._run(workers.py:190)")
    ours = _paragraph(_NAME, "UNKNOWN", *frames)
    name = "ConsumeMessageThread_orders_2"
    task = f"{name:<40}TASK STATE: WAITING\n" + "".join(
        f"{name:<40}{frame}\n" for frame in (frames[0], "rmqctl.consumer.workers.TaskWorkers._run(workers.py:250)")
    )  # fmt: skip
    found = listener_threads(f"{ours}{task}", "orders") or ()
    assert [(each.frames, each.is_own) for each in found] == [(frames[:1], True), (frames[:1], True)]
    assert listener_threads(f"{ours}{task}", "billing") == []


def test_a_dump_in_another_form_tells_nothing() -> None:
    assert listener_threads("goroutine 1 [running]:\nmain.main()\n\t/tmp/main.go:3\n", "orders") is None
    assert listener_threads("", "orders") is None

from __future__ import annotations

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


def test_other_groups_of_the_same_process_do_not_count() -> None:
    assert listener_threads(_HANGS.replace("_orders_1", "_orders_eu_1"), "orders") == []
    assert listener_threads(_HANGS.replace("_orders_1", "_1"), "orders") != []  # of a client without its group's name


def test_a_long_name_leaves_no_room_before_the_state() -> None:
    group = "g" * 120
    dump = _HANGS.replace(f"{_NAME:<40}", f"ConsumeMessageThread_{'g' * 100}_1")
    assert [each.state for each in listener_threads(dump, group) or ()] == ["TIMED_WAITING"]


def test_orderly_listeners_and_our_own() -> None:
    orderly = _HANGS.replace("ConcurrentlyService", "OrderlyService")
    assert len(listener_threads(orderly, "orders") or ()) == 1
    frames = ("shop.handler.consume(handler.py:7)", "rmqctl.consumer.workers.ThreadWorkers._run(workers.py:190)")
    ours = _paragraph("ConsumeMessageThread_1", "UNKNOWN", *frames)
    task = "Task-9" + " " * 34 + "TASK STATE: WAITING\n" + "".join(
        f"{'Task-9':<40}{frame}\n" for frame in (frames[0], "rmqctl.consumer.workers.TaskWorkers._run(workers.py:250)")
    )  # fmt: skip
    assert [each.frames for each in listener_threads(f"{ours}{task}", "orders") or ()] == [frames[:1], frames[:1]]


def test_a_dump_in_another_form_tells_nothing() -> None:
    assert listener_threads("goroutine 1 [running]:\nmain.main()\n\t/tmp/main.go:3\n", "orders") is None
    assert listener_threads("", "orders") is None

from __future__ import annotations

import asyncio
import threading

from rmqctl.consumer.stacks import stacks, where


def paragraph(text: str, name: str) -> list[str]:
    (found,) = [part for part in text.split("\n\n") if part.startswith(f"{name:<40}")]
    return [line.removeprefix(f"{name:<40}") for line in found.splitlines()]


async def test_a_thread_that_waits_is_seen_where_it_waits() -> None:
    waiting, let_go = threading.Event(), threading.Event()

    def consume() -> None:
        waiting.set()
        let_go.wait()

    thread = threading.Thread(target=consume, name="ConsumeMessageThread_7")
    thread.start()
    waiting.wait()
    try:
        state, *calls = paragraph(stacks(), "ConsumeMessageThread_7")
    finally:
        let_go.set()
        thread.join()
    assert state == f"TID: {thread.native_id} STATE: UNKNOWN"
    consuming = next(number for number, call in enumerate(calls) if "<locals>.consume(test_stacks.py:" in call)
    # The innermost first, as Java has it.
    assert any("Event.wait(threading.py:" in call for call in calls[:consuming])
    assert "_bootstrap(threading.py:" in calls[-1]


async def test_a_task_is_seen_down_to_what_it_awaits_at_last() -> None:
    async def inner(event: asyncio.Event) -> None:
        await event.wait()

    async def outer(event: asyncio.Event) -> None:
        await inner(event)

    event = asyncio.Event()
    task = asyncio.create_task(outer(event), name="pulling")
    fresh = asyncio.create_task(outer(event), name="not begun")
    await asyncio.sleep(0)
    text = stacks()
    event.set()
    await asyncio.gather(task, fresh)
    state, *calls = paragraph(text, "pulling")
    assert state == "TASK STATE: WAITING"
    names = [call.partition("(")[0].rpartition(".")[2] for call in calls]
    assert names == ["wait", "inner", "outer"]
    assert "TASK STATE: RUNNING" in text


def test_where_a_thread_is_without_what_called_the_users_code() -> None:
    waiting, let_go = threading.Event(), threading.Event()

    def consume() -> None:
        waiting.set()
        let_go.wait()

    async def listener() -> None:
        consume()

    threads: list[int] = []

    def own_loop() -> None:
        threads.append(threading.get_ident())
        asyncio.run(listener())

    thread = threading.Thread(target=own_loop)
    thread.start()
    waiting.wait()
    try:
        said = where(threads[0])
    finally:
        let_go.set()
        thread.join()
    user, innermost = said.split(", in ")
    assert "<locals>.listener(test_stacks.py:" in user
    assert innermost.startswith("threading.")
    assert where(threads[0]) == "a thread that has ended"

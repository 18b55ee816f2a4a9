"""The pytest plugin: a separate RocketMQ for each test that requests one, ready in milliseconds.

    def test_orders_are_sent(rmq_sandbox):
        producer = Producer(name_server=rmq_sandbox.addr)      # any client of RocketMQ's remoting protocol
        rmq_sandbox.faults.answer(310, 2, count=3)             # the next three sends are answered SYSTEM_BUSY
        ...
        rmq_sandbox.advance(7200)                              # two hours: delayed messages arrive
        rmq_sandbox.restart("broker-a", lose_unflushed=True)   # a power cut

    @pytest.mark.rmq_sandbox(brokers=2, plays="4.9.7", virtual_clock=True)
    def test_with_two_old_brokers(rmq_sandbox): ...

The marker accepts the arguments of rmqctl.sandbox.Sandbox, and `virtual_clock`. The fixture is a ThreadedSandbox: it
runs in a separate thread. During the test, the environment has RMQCTL_MEMORY=0, so that rmqctl does not expect brokers
of an earlier sandbox on the same port. asyncio tests do not need the fixture: `async with Sandbox() as sandbox:`.

The sandbox is imported only when the first test requests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .sandbox_thread import ThreadedSandbox

_MARKER = "rmq_sandbox"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for --strict-markers."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(brokers, queues, plays, virtual_clock, ...): options of the fixture {_MARKER}."
    )


@pytest.fixture(name="rmq_sandbox")
def _rmq_sandbox(request: pytest.FixtureRequest) -> Iterator[ThreadedSandbox]:
    """Yield a running RocketMQ sandbox: `addr`, `faults`, `advance(seconds)`, `restart(broker)`."""
    from .sandbox_thread import ThreadedSandbox

    marker = request.node.get_closest_marker(_MARKER)
    if marker is not None and marker.args:
        raise pytest.UsageError(f"@pytest.mark.{_MARKER} accepts keyword arguments only, for example brokers=2.")
    with ThreadedSandbox(**({} if marker is None else marker.kwargs)) as sandbox, pytest.MonkeyPatch.context() as patch:
        # The port may have been another sandbox's: rmqctl must not report its brokers as missing.
        patch.setenv("RMQCTL_MEMORY", "0")
        yield sandbox

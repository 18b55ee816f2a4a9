"""The pytest plugin: a RocketMQ of its own for each test that asks for one, in milliseconds.

    def test_orders_are_sent(rmq_sandbox):
        producer = Producer(name_server=rmq_sandbox.addr)      # any client of RocketMQ's remoting protocol
        rmq_sandbox.faults.answer(310, 2, count=3)             # the next three sends are answered SYSTEM_BUSY
        ...
        rmq_sandbox.advance(7200)                              # two hours: delayed messages arrive
        rmq_sandbox.restart("broker-a", lose_unflushed=True)   # a power cut

    @pytest.mark.rmq_sandbox(brokers=2, plays="4.9.7", virtual_clock=True)
    def test_with_two_old_brokers(rmq_sandbox): ...

The marker takes what rmqctl.sandbox.Sandbox takes, and `virtual_clock`. The fixture is a ThreadedSandbox: it runs in a
thread of its own. Meanwhile the environment has RMQCTL_MEMORY=0, so that rmqctl expects no broker of a sandbox that had
the same port before. Tests that are asyncio themselves need no fixture: `async with Sandbox() as sandbox:`.

Nothing of the sandbox is imported before the first test that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .threaded import ThreadedSandbox

_MARKER = "rmq_sandbox"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, for those who use --strict-markers."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(brokers, queues, plays, virtual_clock, ...): how the fixture {_MARKER} is to be."
    )


@pytest.fixture(name="rmq_sandbox")
def _rmq_sandbox(request: pytest.FixtureRequest) -> Iterator[ThreadedSandbox]:
    """Give a running sandbox of RocketMQ: `addr`, `faults`, `advance(seconds)`, `restart(broker)`."""
    from .threaded import ThreadedSandbox

    marker = request.node.get_closest_marker(_MARKER)
    if marker is not None and marker.args:
        raise pytest.UsageError(f"@pytest.mark.{_MARKER} takes names and values, such as brokers=2.")
    with ThreadedSandbox(**({} if marker is None else marker.kwargs)) as sandbox, pytest.MonkeyPatch.context() as patch:
        # The port may have been another sandbox's: what rmqctl saw there is nothing to miss.
        patch.setenv("RMQCTL_MEMORY", "0")
        yield sandbox

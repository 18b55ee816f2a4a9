"""Settings for all tests."""

from __future__ import annotations

import inspect
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.scripted_peer import run

# How long one example takes says something of the machine's other work only. Each run of the gate tries the same
# examples; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("rmqctl", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "rmqctl"))


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> None:
    """Let programs that tests start take signals that a shell's background or nohup ignores, and passes on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep journals and locks of this user out of it: each test has a state folder of its own."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True

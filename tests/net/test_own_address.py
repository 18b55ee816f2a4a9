from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from rmqctl.net.own_address import own_address


def test_it_is_an_address_of_this_machine() -> None:
    address = own_address()
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))


def test_a_machine_that_reaches_nobody_has_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(socket.socket):
        def connect(self, address: Any) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Cut)
    assert own_address() == "127.0.0.1"

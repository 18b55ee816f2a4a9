"""The folder of handlers is the table of what is served, and GAPS.md the table of what is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rmqctl.sandbox.handlers
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.handlers import BROKER, NAME_SERVER, load
from rmqctl.sandbox.profile import PROFILES
from tests.sandbox.peer import Peer

FOLDER = Path(rmqctl.sandbox.handlers.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*/r[0-9]*.py"))
GAPS = (FOLDER.parent / "GAPS.md").read_text()
# What a server asks of its clients: nobody sends these to one.
PUSHED = {39, 40, 220, 221, 326, 905, 1008}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_number_and_the_name_of_its_request(name: str) -> None:
    number, _, rest = name[1:].partition("_")
    assert RequestCode(int(number)).name == rest.upper()
    assert len(number) >= 3


@pytest.mark.parametrize("release", PROFILES)
def test_no_request_is_served_by_both_kinds_of_server(release: str) -> None:
    assert not load(BROKER, PROFILES[release]).keys() & load(NAME_SERVER, PROFILES[release]).keys()


def test_gaps_name_every_request_that_is_not_served_and_no_other() -> None:
    served = {int(name[1:].partition("_")[0]) for name in FILES}
    named = {int(number) for number in re.findall(r"^\| (\d+) ", GAPS, flags=re.MULTILINE)}
    assert named == {int(code) for code in RequestCode} - served - PUSHED


@pytest.mark.parametrize("code", [RequestCode.AUTH_CREATE_USER, RequestCode.GET_BROKER_HA_STATUS, 77777])
async def test_what_is_not_served_is_refused_and_never_left_unanswered(code: int) -> None:
    async with Sandbox() as sandbox:
        answer = await (await Peer.of_broker(sandbox)).ask(code)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == f" request type {code} not supported"
        answer = await (await Peer.of_name_server(sandbox)).ask(code)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

from __future__ import annotations

import pytest

from rmqctl.consumer.rules.client_id import make_client_id
from rmqctl.model.group import BROADCASTING


@pytest.mark.parametrize("instance_name", [None, "", " ", "DEFAULT"])
def test_an_instance_without_a_name_is_called_by_process_and_time(instance_name: str | None) -> None:
    assert make_client_id("10.0.0.1", pid=77, nano_time=12, instance_name=instance_name) == "10.0.0.1@77#12"


def test_two_of_one_process_differ() -> None:
    ids = {make_client_id("10.0.0.1", pid=77, nano_time=nano_time) for nano_time in (12, 13)}
    assert len(ids) == 2


def test_an_instance_keeps_its_name_in_either_model() -> None:
    assert make_client_id("10.0.0.1", pid=77, nano_time=12, instance_name="blue") == "10.0.0.1@blue"
    named = make_client_id("10.0.0.1", pid=77, nano_time=12, instance_name="blue", message_model=BROADCASTING)
    assert named == "10.0.0.1@blue"


def test_a_broadcasting_one_is_called_the_same_after_a_restart_for_its_offsets_folder_has_that_name() -> None:
    ids = {make_client_id("10.0.0.1", pid=pid, nano_time=pid, message_model=BROADCASTING) for pid in (1, 2)}
    assert ids == {"10.0.0.1@DEFAULT"}


def test_a_unit_comes_last_and_ipv6_has_no_brackets() -> None:
    assert make_client_id("::1", pid=7, nano_time=1, unit_name="east") == "::1@7#1@east"
    assert make_client_id("[fe80::2]", pid=7, nano_time=1, unit_name=" ") == "fe80::2@7#1"

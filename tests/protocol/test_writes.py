"""Requests that change something, field by field: RocketMQ's headers do not forgive a wrong one."""

from __future__ import annotations

import json

import pytest

from rmqctl.protocol import writes
from rmqctl.protocol.codes import RequestCode


@pytest.mark.parametrize("offset", [0, 5, -1, 2**63 - 1])
def test_an_offset_is_stored_for_one_queue(offset: int) -> None:
    command = writes.update_consumer_offset("G", "T", 3, offset)
    assert command.code == RequestCode.UPDATE_CONSUMER_OFFSET
    assert command.ext_fields == {"consumerGroup": "G", "topic": "T", "queueId": "3", "commitOffset": str(offset)}
    assert (command.body, command.is_oneway) == (b"", False)


def test_a_reset_names_queue_and_offset_and_never_a_time_that_would_skip() -> None:
    command = writes.reset_offset("G", "T", 0, 0)
    assert command.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    assert command.ext_fields == {
        "group": "G", "topic": "T", "queueId": "0", "offset": "0", "timestamp": "0", "isForce": "true"
    }  # fmt: skip


def test_a_push_names_no_queue_and_sends_nobody_further_than_what_is_stored() -> None:
    command = writes.push_stored_offsets("G", "T")
    assert command.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    assert command.ext_fields == {"group": "G", "topic": "T", "timestamp": "-1", "isForce": "false"}
    assert command.language != "CPP"
    assert writes.push_stored_offsets("G", "T", for_cpp=True).language == "CPP"


def test_a_configuration_is_written_whole() -> None:
    config = {"groupName": "G", "consumeEnable": False, "retryMaxTimes": 3, "ä": None}
    command = writes.update_group(config)
    assert command.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert json.loads(command.body) == config


def test_a_topic_keeps_its_attributes() -> None:
    config = {
        "topicName": "T", "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 1, "order": True, "attributes": {"message.type": "FIFO"},
    }  # fmt: skip
    command = writes.update_topic(config)
    assert (command.code, command.body) == (RequestCode.UPDATE_AND_CREATE_TOPIC, b"")
    assert command.ext_fields == {
        "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "2", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "1", "order": "true",
    }  # fmt: skip
    steps = writes.update_topic(config, {"-reserve.time": "", "+message.type": "NORMAL"})
    assert steps.ext_fields["attributes"] == "-reserve.time,+message.type=NORMAL"


@pytest.mark.parametrize(("with_offsets", "flag"), [(True, "true"), (False, "false")])
def test_both_releases_are_told_whether_offsets_go(with_offsets: bool, flag: str) -> None:
    command = writes.delete_group("G", with_offsets=with_offsets)
    assert command.code == RequestCode.DELETE_SUBSCRIPTIONGROUP
    assert command.ext_fields == {"groupName": "G", "cleanOffset": flag, "removeOffset": flag}

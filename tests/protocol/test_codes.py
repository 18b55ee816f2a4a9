from __future__ import annotations

import re
import subprocess
import sys

import pytest

from rmqctl.protocol.code_notes import RESPONSE_NOTES
from rmqctl.protocol.codes import RequestCode, ResponseCode, request_code_name, response_code_name
from rmqctl.protocol.request_notes import REQUEST_NOTES

# RequestCode of 5.5.0; the ACL 1.0 requests 50 to 54 of 4.9.7.
REQUESTS = """
10 SEND_MESSAGE 310 SEND_MESSAGE_V2 320 SEND_BATCH_MESSAGE 11 PULL_MESSAGE 361 LITE_PULL_MESSAGE 12 QUERY_MESSAGE
33 VIEW_MESSAGE_BY_ID 13 QUERY_BROKER_OFFSET 14 QUERY_CONSUMER_OFFSET 15 UPDATE_CONSUMER_OFFSET
17 UPDATE_AND_CREATE_TOPIC 18 UPDATE_AND_CREATE_TOPIC_LIST 21 GET_ALL_TOPIC_CONFIG 22 GET_TOPIC_CONFIG_LIST
23 GET_TOPIC_NAME_LIST 25 UPDATE_BROKER_CONFIG 26 GET_BROKER_CONFIG 27 TRIGGER_DELETE_FILES 28 GET_BROKER_RUNTIME_INFO
29 SEARCH_OFFSET_BY_TIMESTAMP 30 GET_MAX_OFFSET 31 GET_MIN_OFFSET 32 GET_EARLIEST_MSG_STORETIME 34 HEART_BEAT
35 UNREGISTER_CLIENT 36 CONSUMER_SEND_MSG_BACK 37 END_TRANSACTION 38 GET_CONSUMER_LIST_BY_GROUP
39 CHECK_TRANSACTION_STATE 40 NOTIFY_CONSUMER_IDS_CHANGED 41 LOCK_BATCH_MQ 42 UNLOCK_BATCH_MQ
43 GET_ALL_CONSUMER_OFFSET 45 GET_ALL_DELAY_OFFSET 46 CHECK_CLIENT_CONFIG 47 GET_CLIENT_CONFIG
50 UPDATE_AND_CREATE_ACL_CONFIG 51 DELETE_ACL_CONFIG 52 GET_BROKER_CLUSTER_ACL_INFO
53 UPDATE_GLOBAL_WHITE_ADDRS_CONFIG 54 GET_BROKER_CLUSTER_ACL_CONFIG 60 GET_TIMER_CHECK_POINT 61 GET_TIMER_METRICS
100 PUT_KV_CONFIG 101 GET_KV_CONFIG 102 DELETE_KV_CONFIG 103 REGISTER_BROKER 104 UNREGISTER_BROKER
105 GET_ROUTEINFO_BY_TOPIC 106 GET_BROKER_CLUSTER_INFO 200 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG 202 GET_TOPIC_STATS_INFO 203 GET_CONSUMER_CONNECTION_LIST
204 GET_PRODUCER_CONNECTION_LIST 205 WIPE_WRITE_PERM_OF_BROKER 206 GET_ALL_TOPIC_LIST_FROM_NAMESERVER
207 DELETE_SUBSCRIPTIONGROUP 208 GET_CONSUME_STATS 209 SUSPEND_CONSUMER 210 RESUME_CONSUMER
211 RESET_CONSUMER_OFFSET_IN_CONSUMER 212 RESET_CONSUMER_OFFSET_IN_BROKER 213 ADJUST_CONSUMER_THREAD_POOL
214 WHO_CONSUME_THE_MESSAGE 215 DELETE_TOPIC_IN_BROKER 216 DELETE_TOPIC_IN_NAMESRV 217 REGISTER_TOPIC_IN_NAMESRV
219 GET_KVLIST_BY_NAMESPACE 220 RESET_CONSUMER_CLIENT_OFFSET 221 GET_CONSUMER_STATUS_FROM_CLIENT
222 INVOKE_BROKER_TO_RESET_OFFSET 223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS 224 GET_TOPICS_BY_CLUSTER
225 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 300 QUERY_TOPIC_CONSUME_BY_WHO 303 QUERY_CONSUME_TIME_SPAN
304 GET_SYSTEM_TOPIC_LIST_FROM_NS 305 GET_SYSTEM_TOPIC_LIST_FROM_BROKER 306 CLEAN_EXPIRED_CONSUMEQUEUE
307 GET_CONSUMER_RUNNING_INFO 308 QUERY_CORRECTION_OFFSET 309 CONSUME_MESSAGE_DIRECTLY 311 GET_UNIT_TOPIC_LIST
314 CLONE_GROUP_OFFSET 315 VIEW_BROKER_STATS_DATA 316 CLEAN_UNUSED_TOPIC 317 GET_BROKER_CONSUME_STATS
318 UPDATE_NAMESRV_CONFIG 319 GET_NAMESRV_CONFIG 321 QUERY_CONSUME_QUEUE 322 QUERY_DATA_VERSION
323 RESUME_CHECK_HALF_MESSAGE 324 SEND_REPLY_MESSAGE 325 SEND_REPLY_MESSAGE_V2 326 PUSH_REPLY_MESSAGE_TO_CLIENT
327 ADD_WRITE_PERM_OF_BROKER 328 GET_ALL_PRODUCER_INFO 329 DELETE_EXPIRED_COMMITLOG 343 QUERY_TOPICS_BY_CONSUMER
345 QUERY_SUBSCRIPTION_BY_CONSUMER 351 GET_TOPIC_CONFIG 352 GET_SUBSCRIPTIONGROUP_CONFIG
353 UPDATE_AND_GET_GROUP_FORBIDDEN 354 CHECK_ROCKSDB_CQ_WRITE_PROGRESS 355 EXPORT_ROCKSDB_CONFIG_TO_JSON
370 RECALL_MESSAGE 400 QUERY_ASSIGNMENT 401 SET_MESSAGE_REQUEST_MODE 402 GET_ALL_MESSAGE_REQUEST_MODE
513 UPDATE_AND_CREATE_STATIC_TOPIC 901 GET_BROKER_MEMBER_GROUP 902 ADD_BROKER 903 REMOVE_BROKER 904 BROKER_HEARTBEAT
905 NOTIFY_MIN_BROKER_ID_CHANGE 906 EXCHANGE_BROKER_HA_INFO 907 GET_BROKER_HA_STATUS 908 RESET_MASTER_FLUSH_OFFSET
1001 CONTROLLER_ALTER_SYNC_STATE_SET 1013 CONTROLLER_APPLY_BROKER_ID 2004 SET_COMMITLOG_READ_MODE
3001 AUTH_CREATE_USER 3010 AUTH_LIST_ACL 5001 SWITCH_TIMER_ENGINE 200050 POP_MESSAGE 200051 ACK_MESSAGE
200151 BATCH_ACK_MESSAGE 200052 PEEK_MESSAGE 200053 CHANGE_MESSAGE_INVISIBLETIME 200054 NOTIFICATION
200055 POLLING_INFO 200056 POP_ROLLBACK 200070 POP_LITE_MESSAGE 200079 TRIGGER_LITE_DISPATCH
"""

# RemotingSysResponseCode and ResponseCode of 5.5.0.
RESPONSES = """
0 SUCCESS 1 SYSTEM_ERROR 2 SYSTEM_BUSY 3 REQUEST_CODE_NOT_SUPPORTED 4 TRANSACTION_FAILED 10 FLUSH_DISK_TIMEOUT
11 SLAVE_NOT_AVAILABLE 12 FLUSH_SLAVE_TIMEOUT 13 MESSAGE_ILLEGAL 14 SERVICE_NOT_AVAILABLE 15 VERSION_NOT_SUPPORTED
16 NO_PERMISSION 17 TOPIC_NOT_EXIST 18 TOPIC_EXIST_ALREADY 19 PULL_NOT_FOUND 20 PULL_RETRY_IMMEDIATELY
21 PULL_OFFSET_MOVED 22 QUERY_NOT_FOUND 23 SUBSCRIPTION_PARSE_FAILED 24 SUBSCRIPTION_NOT_EXIST
25 SUBSCRIPTION_NOT_LATEST 26 SUBSCRIPTION_GROUP_NOT_EXIST 27 FILTER_DATA_NOT_EXIST 28 FILTER_DATA_NOT_LATEST
29 INVALID_PARAMETER 200 TRANSACTION_SHOULD_COMMIT 201 TRANSACTION_SHOULD_ROLLBACK 202 TRANSACTION_STATE_UNKNOW
203 TRANSACTION_STATE_GROUP_WRONG 204 NO_BUYER_ID 205 NOT_IN_CURRENT_UNIT 206 CONSUMER_NOT_ONLINE
207 CONSUME_MSG_TIMEOUT 208 NO_MESSAGE 209 POLLING_FULL 210 POLLING_TIMEOUT 211 BROKER_NOT_EXIST
212 BROKER_DISPATCH_NOT_COMPLETE 213 BROADCAST_CONSUMPTION 215 FLOW_CONTROL 501 NOT_LEADER_FOR_QUEUE
604 ILLEGAL_OPERATION 1500 GO_AWAY 2000 CONTROLLER_FENCED_MASTER_EPOCH 2007 CONTROLLER_NOT_LEADER
2016 CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS 3001 USER_NOT_EXIST 3002 POLICY_NOT_EXIST -1000 RPC_UNKNOWN
-1002 RPC_ADDR_IS_NULL -1004 RPC_SEND_TO_CHANNEL_FAILED -1006 RPC_TIME_OUT
2017 LMQ_QUOTA_EXCEEDED 2018 LITE_SUBSCRIPTION_QUOTA_EXCEEDED
"""

NO_HANDLER = {13, 22, 23, 27, 47, 209, 210, 211, 212, 213, 214}

COMMANDS = {"rmqctl offset show GROUP", "rmqctl group list", "rmqctl cluster list", "rmqctl explain CODE"}


def pairs(table: str) -> list[tuple[int, str]]:
    words = table.split()
    return [(int(code), name) for code, name in zip(words[::2], words[1::2], strict=True)]


def sentence_count(text: str) -> int:
    return len(re.findall(r"[.?!](?= |$)", text))


@pytest.mark.parametrize(("code", "name"), pairs(REQUESTS))
def test_request_names(code: int, name: str) -> None:
    assert request_code_name(code) == name
    assert RequestCode[name] == code


@pytest.mark.parametrize(("code", "name"), pairs(RESPONSES))
def test_response_names(code: int, name: str) -> None:
    assert response_code_name(code) == name
    assert ResponseCode[name] == code


@pytest.mark.parametrize("code", [-1, 5, 99, 214, 65536, 2**31 - 1])
def test_an_unknown_response_code_keeps_its_number(code: int) -> None:
    assert response_code_name(code) == f"CODE_{code}"


@pytest.mark.parametrize("code", [-5, 0, 16, 3442, 2**31 - 1])
def test_an_unknown_request_code_keeps_its_number(code: int) -> None:
    assert request_code_name(code) == f"CODE_{code}"


def test_no_two_members_share_a_value() -> None:
    assert len(RequestCode.__members__) == len(RequestCode) == 169
    assert len(ResponseCode.__members__) == len(ResponseCode) == 68


def test_the_controllers_answers_are_all_there() -> None:
    answers = [code for code in ResponseCode if code.name.startswith("CONTROLLER_")]
    assert answers == list(range(2000, 2017))


def test_importing_the_codes_loads_neither_notes_nor_dataclasses() -> None:
    script = "import sys, rmqctl.protocol.codes; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rmqctl.protocol.code_notes", "rmqctl.protocol.request_notes", "dataclasses", "typing"} & set(loaded)


def test_every_response_has_a_note() -> None:
    assert list(RESPONSE_NOTES) == list(ResponseCode)


def test_every_request_has_a_note() -> None:
    assert list(REQUEST_NOTES) == list(RequestCode)


@pytest.mark.parametrize("code", ResponseCode, ids=response_code_name)
def test_a_response_note_is_short_and_whole(code: ResponseCode) -> None:
    note = RESPONSE_NOTES[code]
    assert sentence_count(note.meaning) in (1, 2, 3)
    for text in (note.meaning, note.advice):
        assert text[0].isupper() or text.startswith("5.x: ")
        assert text.endswith(".")
        assert "  " not in text


@pytest.mark.parametrize("code", RequestCode, ids=request_code_name)
def test_a_request_note_is_one_sentence(code: RequestCode) -> None:
    note = REQUEST_NOTES[code]
    assert sentence_count(note) == 1
    assert note[0].isupper()
    assert note.endswith(".")
    assert "  " not in note


def test_requests_without_a_handler_say_so() -> None:
    dead = "Not answered by any RocketMQ release since 4.9"
    assert {code for code, note in REQUEST_NOTES.items() if note.startswith(dead)} == NO_HANDLER


@pytest.mark.parametrize(
    ("code", "warning"),
    [
        (15, "writes nothing while a server-side reset"),
        (36, "loses the message"),
        (41, "locks a free queue"),
        (308, "first deletes all stored offsets"),
        (314, "does nothing and answers success"),
        (352, "creates the group"),
        (353, "clears the group's whole forbidden table"),
    ],
)
def test_side_effects_are_named(code: int, warning: str) -> None:
    assert warning in REQUEST_NOTES[RequestCode(code)]


@pytest.mark.parametrize(
    ("code", "name_in_4_9"),
    [
        (209, "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"),
        (210, "DELETE_ACL_CONFIG_FAILED"),
        (211, "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED"),
    ],
)
def test_codes_that_4_9_uses_otherwise_say_so(code: int, name_in_4_9: str) -> None:
    assert f"4.9: {name_in_4_9}" in RESPONSE_NOTES[ResponseCode(code)].meaning


def test_notes_name_only_commands_that_exist() -> None:
    notes = [*REQUEST_NOTES.values(), *(f"{note.meaning} {note.advice}" for note in RESPONSE_NOTES.values())]
    named = {command for note in notes for command in re.findall(r"`([^`]*)`", note)}
    assert named <= COMMANDS

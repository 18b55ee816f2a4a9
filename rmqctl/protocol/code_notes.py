"""The meaning of each response code for an operator, and what to do about it.

Sources: the processors and clients of RocketMQ 4.9.7 and 5.4.0, and both versions' answers. "Judging by its name"
marks a meaning that only the code's name supports.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqctl.protocol.codes import ResponseCode


@dataclass(frozen=True, slots=True)
class CodeNote:
    """One response code in plain words: what happened, and what to do."""

    meaning: str
    advice: str


_CONTROLLER = "Only 5.x brokers and admin tools talk to a controller; consumers never get this code."
_LOOK_AT_CONTROLLER = (
    "Check the logs of the controller and of the broker. `rmqctl cluster list` shows which brokers are registered."
)
_RPC = "RocketMQ's own RPC client creates this code inside a Java process."
_LOOK_AT_PEER = "Check the log of the process that reported it for the address that it tried to call."

RESPONSE_NOTES: dict[ResponseCode, CodeNote] = {
    ResponseCode.SUCCESS: CodeNote(
        meaning=(
            "The peer carried out the request, or claims that it did. Success does not prove that a name exists: for "
            "an unknown topic, 4.9 and 5.x both answer 0 as maximum and minimum offset."
        ),
        advice=(
            'Usually ignore the remark. On 5.x, "Offset has been previously reset" means that a commit was not '
            "written: compare what you wrote with `rmqctl offset show GROUP`."
        ),
    ),
    ResponseCode.SYSTEM_ERROR: CodeNote(
        meaning=(
            'The peer failed to handle the request. The remark has the Java exception or a reason, for example "no '
            'consumer for this group". 4.9 also answers 1 to refused credentials and wrong parameters, where 5.x '
            "answers 16 and 29."
        ),
        advice=(
            "Read the remark. A NullPointerException usually means that a field is missing or the group is not "
            'connected. "no consumer for this group" means that the group has no member connected to this broker. A '
            "refused signature on 4.9 means wrong credentials."
        ),
    ),
    ResponseCode.SYSTEM_BUSY: CodeNote(
        meaning=(
            "The broker is overloaded and rejects the request. The remark starts with [REJECTREQUEST], [OVERLOAD], "
            "[PCBUSY_CLEAN_QUEUE], [TIMEOUT_CLEAN_QUEUE] or [PC_SYNCHRONIZED]."
        ),
        advice="Retry after a pause. If it persists, check the load and the disk of this broker.",
    ),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: CodeNote(
        meaning=(
            "The peer does not know this request: its release is too old, or it is a proxy, whose remoting port "
            "supports few requests. A 4.9 name server does not answer an unknown request at all."
        ),
        advice=(
            "Connect to the broker itself, not to a proxy: `rmqctl cluster list` asks the name server for the brokers' "
            "addresses. If the peer is the broker, the request needs a newer release."
        ),
    ),
    ResponseCode.TRANSACTION_FAILED: CodeNote(
        meaning="Judging by its name, a transaction failed. It concerns transactional producers, not consumer groups.",
        advice="Check the remark and the producer's log; no consumer group needs attention.",
    ),
    ResponseCode.FLUSH_DISK_TIMEOUT: CodeNote(
        meaning="The broker stored the message, but its flush to disk was late. Consumers get the message.",
        advice=(
            "Do not send the message again without need: consumers would get it twice. If it is frequent, check the "
            "broker's disk."
        ),
    ),
    ResponseCode.SLAVE_NOT_AVAILABLE: CodeNote(
        meaning=(
            "The master stored the message, but had no slave to copy it to. Consumers get the message, but it is lost "
            "if the master loses it."
        ),
        advice=(
            "Do not send the message again without need: consumers would get it twice. Check in `rmqctl cluster list` "
            "whether the slave is registered."
        ),
    ),
    ResponseCode.FLUSH_SLAVE_TIMEOUT: CodeNote(
        meaning="The master stored the message, but the slave was late to confirm its copy. Consumers get the message.",
        advice=(
            "Do not send the message again without need: consumers would get it twice. If it is frequent, check the "
            "slave and the network between master and slave."
        ),
    ),
    ResponseCode.MESSAGE_ILLEGAL: CodeNote(
        meaning=(
            "The broker rejects the message itself: too large (by default over 4 MiB), properties over 32767 bytes, a "
            "topic name over 127 characters, a delay too far ahead, or a batch for a %RETRY% topic."
        ),
        advice="Change the message at its producer; the broker will reject the same message again.",
    ),
    ResponseCode.SERVICE_NOT_AVAILABLE: CodeNote(
        meaning="The broker does not serve requests: it is starting or shutting down, or its disk is full.",
        advice=(
            "Wait if the broker is being restarted; otherwise check its disk first. `rmqctl cluster list` shows which "
            "brokers are registered."
        ),
    ),
    ResponseCode.VERSION_NOT_SUPPORTED: CodeNote(
        meaning="Judging by its name, the peer does not support a version. Consumers are not known to get this code.",
        advice="Compare the releases of the client and of the broker.",
    ),
    ResponseCode.NO_PERMISSION: CodeNote(
        meaning=(
            "The peer refuses the request. A permission bit of the broker or topic is off, consuming or broadcasting "
            "is disabled for the group, the topic is a system topic, or the setting is protected. On 5.x, access "
            "control may also deny it, or the topic is forbidden for the group; 4.9 reports a denial by access "
            "control, and some others, as 1."
        ),
        advice=(
            "The remark names the reason. Check the credentials and their rights on topic and group, then the topic's "
            "perm, then the group's consumeEnable; each broker has its own copy of both settings."
        ),
    ),
    ResponseCode.TOPIC_NOT_EXIST: CodeNote(
        meaning="The topic does not exist on this broker, or no broker has registered it with this name server.",
        advice=(
            "Check the spelling, and in `rmqctl cluster list` that the brokers are registered. A missing %RETRY% topic "
            "appears with the first heartbeat of its group."
        ),
    ),
    ResponseCode.TOPIC_EXIST_ALREADY: CodeNote(
        meaning=(
            "Judging by its name, the topic already exists. Consumers are not known to get this code, and creating a "
            "topic again with equal settings is answered with 0."
        ),
        advice="Check the topic's current settings before you change anything.",
    ),
    ResponseCode.PULL_NOT_FOUND: CodeNote(
        meaning=(
            "The queue has no message at this offset yet: the consumer has caught up, or the queue is empty. A "
            "long-polling pull normally ends this way."
        ),
        advice=(
            "No action needed. If you expect messages, `rmqctl offset show GROUP` compares the group's offset with the "
            "end of the queue."
        ),
    ),
    ResponseCode.PULL_RETRY_IMMEDIATELY: CodeNote(
        meaning=(
            "The broker read messages, but none passed the filter; the consumer continues after them. A few in a row "
            "are normal for tag and SQL92 filters."
        ),
        advice=(
            "If a member misses messages, compare the tag expressions of all members. The newest one, by its client's "
            "clock, applies to the whole group; members with another expression lose messages silently."
        ),
    ),
    ResponseCode.PULL_OFFSET_MOVED: CodeNote(
        meaning=(
            "The requested offset is below the queue's minimum or above its maximum, or a reset is pending on a 5.x "
            "broker. The answer names the offset to continue from."
        ),
        advice=(
            "Normal once after a reset. Otherwise check `rmqctl offset show GROUP`. Below the minimum, messages were "
            "deleted unread; above the maximum, the topic was created again or a reset went wrong."
        ),
    ),
    ResponseCode.QUERY_NOT_FOUND: CodeNote(
        meaning=(
            "Nothing is stored for this query: the group has no offset for this queue, the name server does not have "
            "the key, or no message matches. For a missing offset, brokers often answer 0 instead; 4.9 does so even if "
            "the topic does not exist."
        ),
        advice=(
            "For an offset, the group has not committed on this queue; `rmqctl offset show GROUP` shows the other "
            "queues. For a message, check the key and the time: it may already be deleted."
        ),
    ),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: CodeNote(
        meaning="The broker cannot parse the subscription's filter expression.",
        advice=(
            "Correct the tag or SQL92 expression in the consumer. Do not rely on this code for SQL92: a pull that "
            "carries its own invalid expression gets all messages, unfiltered."
        ),
    ),
    ResponseCode.SUBSCRIPTION_NOT_EXIST: CodeNote(
        meaning=(
            "The broker does not know the subscription: the group has no member registered there, or a member with "
            "other topics has overwritten it."
        ),
        advice=(
            "Make all members of the group subscribe to the same topics. If only one broker answers this, check that "
            "the clients reach it."
        ),
    ),
    ResponseCode.SUBSCRIPTION_NOT_LATEST: CodeNote(
        meaning=(
            "The broker's copy of the subscription is older than the member's. This is normal for a few seconds after "
            "a change, until the heartbeat arrives."
        ),
        advice=(
            "If it persists, the member's heartbeats do not reach this broker: check the network between them and the "
            "client's log."
        ),
    ),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: CodeNote(
        meaning=(
            "This broker has no configuration for the group and may not create it (autoCreateSubscriptionGroup is "
            "off). 5.x also answers this when an offset of an unknown group is written or reset. 4.9 writes such an "
            "offset unchecked, and answers such a reset with 1."
        ),
        advice=(
            "Check the spelling with `rmqctl group list`. Each broker has its own copy of the configuration: create "
            "the group on every master."
        ),
    ),
    ResponseCode.FILTER_DATA_NOT_EXIST: CodeNote(
        meaning="The broker has no SQL92 filter for this group and topic. It concerns SQL92 subscriptions only.",
        advice=(
            "Wait for the member's next heartbeat (every 30 s). If it persists, check that heartbeats reach this "
            "broker."
        ),
    ),
    ResponseCode.FILTER_DATA_NOT_LATEST: CodeNote(
        meaning=(
            "The broker's SQL92 filter for this group and topic is older than the member's. It concerns SQL92 "
            "subscriptions only."
        ),
        advice=(
            "Wait for the member's next heartbeat (every 30 s). If it persists, check that heartbeats reach this "
            "broker."
        ),
    ),
    ResponseCode.INVALID_PARAMETER: CodeNote(
        meaning=(
            "A field of the request is malformed or out of range, for example an invalid topic name or a queue id that "
            "the topic does not have. Only 5.x answers this; 4.9 usually answers 1."
        ),
        advice="Read the remark, and compare the queue id with the topic's current queues.",
    ),
    ResponseCode.TRANSACTION_SHOULD_COMMIT: CodeNote(
        meaning=(
            "Judging by its name, the verdict to commit a transaction. It concerns transactional producers, not "
            "consumer groups."
        ),
        advice="Check the producer; no consumer group needs attention.",
    ),
    ResponseCode.TRANSACTION_SHOULD_ROLLBACK: CodeNote(
        meaning=(
            "Judging by its name, the verdict to roll back a transaction. It concerns transactional producers, not "
            "consumer groups."
        ),
        advice="Check the producer; no consumer group needs attention.",
    ),
    ResponseCode.TRANSACTION_STATE_UNKNOW: CodeNote(
        meaning=(
            "Judging by its name, the outcome of a transaction is not known yet. It concerns transactional producers, "
            "not consumer groups."
        ),
        advice="Check the producer; no consumer group needs attention.",
    ),
    ResponseCode.TRANSACTION_STATE_GROUP_WRONG: CodeNote(
        meaning=(
            "Judging by its name, a transaction's state was reported for the wrong producer group. It concerns "
            "transactional producers, not consumer groups."
        ),
        advice="Check the producer's group name; no consumer group needs attention.",
    ),
    ResponseCode.NO_BUYER_ID: CodeNote(
        meaning=(
            "Judging by its name, a message lacks a buyer id, a property of old and commercial editions. Consumers are "
            "not known to get this code."
        ),
        advice="Read the remark, and ask the operators of that edition.",
    ),
    ResponseCode.NOT_IN_CURRENT_UNIT: CodeNote(
        meaning=(
            "Judging by its name, the request belongs to another unit than the peer's. Consumers are not known to get "
            "this code."
        ),
        advice="Compare the unit names of the client and the cluster.",
    ),
    ResponseCode.CONSUMER_NOT_ONLINE: CodeNote(
        meaning=(
            "The group has no member connected to this broker. The broker answers this to a query for connections "
            "(203), and to a reset (222) that it does not perform itself. 4.9 never performs a reset itself; a 5.x "
            "broker that does needs no members."
        ),
        advice=(
            "Ask the other brokers before you treat the group as offline. Clients of a proxy are not registered at the "
            "broker. If `rmqctl offset show GROUP` changes between two calls, a member is consuming."
        ),
    ),
    ResponseCode.CONSUME_MSG_TIMEOUT: CodeNote(
        meaning=(
            "The broker forwarded the request to the client, and the client did not answer in time (10 s for its "
            "running info)."
        ),
        advice="The client hangs, is paused or has just left: check its process, and take its thread stacks there.",
    ),
    ResponseCode.NO_MESSAGE: CodeNote(
        meaning=(
            "POP: the queue has no message at the offset to acknowledge or to hide longer. A late acknowledgement is "
            "not the reason: it is answered with 0."
        ),
        advice="Check the client: for a retried message, topic and queue must be those of the retry topic.",
    ),
    ResponseCode.POLLING_FULL: CodeNote(
        meaning=(
            "5.x: too many POP requests are already waiting at the broker. 4.9: UPDATE_AND_CREATE_ACL_CONFIG_FAILED, "
            "an account was not written."
        ),
        advice=(
            "5.x: retry after a pause, and count the waiting clients. 4.9: read the remark, and check the account's "
            "fields."
        ),
    ),
    ResponseCode.POLLING_TIMEOUT: CodeNote(
        meaning=(
            '5.x: POP found no message in time, which is normal when idle. The remark "pop message is timeout too '
            "much\" means that the client's clock is behind the broker's. 4.9: DELETE_ACL_CONFIG_FAILED, an account "
            "was not deleted."
        ),
        advice=(
            "5.x: when idle, no action needed; with that remark, set the clocks, because POP gets no messages until "
            "then. 4.9: read the remark, and check the access key."
        ),
    ),
    ResponseCode.BROKER_NOT_EXIST: CodeNote(
        meaning=(
            "5.x: judging by its name, the requested broker does not exist. 4.9: "
            "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, the list of addresses that are always admitted was not written."
        ),
        advice="5.x: compare the name with `rmqctl cluster list`. 4.9: read the remark, and check the addresses.",
    ),
    ResponseCode.BROKER_DISPATCH_NOT_COMPLETE: CodeNote(
        meaning="Judging by its name, the broker has not yet dispatched all stored messages to its queues.",
        advice="Retry after a pause. If it persists, check the broker's disk and load.",
    ),
    ResponseCode.BROADCAST_CONSUMPTION: CodeNote(
        meaning=(
            "Returned by the Java admin client, not by a broker: the group is broadcasting, so its clients store their "
            "offsets themselves."
        ),
        advice="Judge such a group by its clients: the offsets and the lag that a broker reports for it mean nothing.",
    ),
    ResponseCode.FLOW_CONTROL: CodeNote(
        meaning="The peer throttles this client. A Java push consumer pulls again after 20 ms.",
        advice="No action needed if it passes; otherwise check the load of the broker or proxy.",
    ),
    ResponseCode.NOT_LEADER_FOR_QUEUE: CodeNote(
        meaning="Static topics of 5.x: this broker does not lead the requested queue.",
        advice=(
            "The client's route is outdated; Java clients refresh theirs every 30 s. If it persists, check in `rmqctl "
            "cluster list` whether all brokers are registered."
        ),
    ),
    ResponseCode.ILLEGAL_OPERATION: CodeNote(
        meaning=(
            "Judging by its name, the operation is not allowed. A 5.4.0 broker answers this to requests that end a "
            "transaction (37) or recall a delayed message (370)."
        ),
        advice="Read the remark, and check the producer; no consumer group needs attention.",
    ),
    ResponseCode.GO_AWAY: CodeNote(
        meaning=(
            "The server is shutting down gracefully and asks the client to reconnect (since 5.2). It answers this only "
            "to clients that report a version above V5_3_1, which rmqctl does not."
        ),
        advice="Retry; a client should reconnect by itself. Check in `rmqctl cluster list` whether the broker is back.",
    ),
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH: CodeNote(
        meaning=f"Judging by its name, the controller rejects a request with an outdated master epoch. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: CodeNote(
        meaning=(
            "Judging by its name, the controller rejects a request with an outdated epoch of the in-sync replica set. "
            f"{_CONTROLLER}"
        ),
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_MASTER: CodeNote(
        meaning=(
            "Judging by its name, the broker that acts as master is not the master that the controller knows. "
            f"{_CONTROLLER}"
        ),
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_REPLICAS: CodeNote(
        meaning=f"Judging by its name, the request lists replicas that the controller does not accept. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE: CodeNote(
        meaning=f"Judging by its name, no master is available. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_REQUEST: CodeNote(
        meaning=f"Judging by its name, the controller cannot process the request. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE: CodeNote(
        meaning=f"Judging by its name, the controller does not see the broker as alive. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_NOT_LEADER: CodeNote(
        meaning=(f"Judging by its name, the requested controller is not the leader. {_CONTROLLER}"),
        advice="Ask the leader. If no controller leads, check the controllers' logs.",
    ),
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST: CodeNote(
        meaning=f"Judging by its name, the controller has no data about this broker. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA: CodeNote(
        meaning=f"Judging by its name, the request to delete a broker's data was not valid. {_CONTROLLER}",
        advice="Check the broker's names and ids in the request.",
    ),
    ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED: CodeNote(
        meaning=f"Judging by its name, the broker must register with the controller first. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: CodeNote(
        meaning=f"Judging by its name, no new master is elected because the old one still exists. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED: CodeNote(
        meaning=f"Judging by its name, the controller could not elect a master. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: CodeNote(
        meaning=f"Judging by its name, the controller could not change the in-sync replica set. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_BROKER_ID_INVALID: CodeNote(
        meaning=f"Judging by its name, the broker's id is not valid. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR: CodeNote(
        meaning=f"Judging by its name, the controller's own replication by JRaft failed. {_CONTROLLER}",
        advice="Check the controllers' logs.",
    ),
    ResponseCode.CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS: CodeNote(
        meaning=f"Judging by its name, the controller has no record of when brokers were last alive. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.LMQ_QUOTA_EXCEEDED: CodeNote(
        meaning="The broker has reached its limit of light queues, so no lite topic can be added (since 5.5.0).",
        advice=(
            "Wait until lite topics expire (lite.topic.expiration of their parent), or raise the broker's "
            "maxLmqConsumeQueueNum."
        ),
    ),
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: CodeNote(
        meaning="A client, or all clients of a broker together, reached the limit of lite subscriptions (since 5.5.0).",
        advice=(
            "Unsubscribe from unused lite topics, or raise the group's lite.sub.client.quota or the broker's "
            "maxLiteSubscriptionCount."
        ),
    ),
    ResponseCode.USER_NOT_EXIST: CodeNote(
        meaning="Access control (since 5.3.0): this user does not exist.",
        advice="Check the spelling of the user name; if it is right, have the user created.",
    ),
    ResponseCode.POLICY_NOT_EXIST: CodeNote(
        meaning="Access control (since 5.3.0): this user does not have this rule.",
        advice="Check the spelling of the user and of the resource; if both are right, have the rule created.",
    ),
    ResponseCode.RPC_UNKNOWN: CodeNote(
        meaning=f"{_RPC} Judging by its name, the call failed for a reason without its own code.",
        advice=_LOOK_AT_PEER,
    ),
    ResponseCode.RPC_ADDR_IS_NULL: CodeNote(
        meaning=f"{_RPC} Judging by its name, it had no address to send to.",
        advice=_LOOK_AT_PEER,
    ),
    ResponseCode.RPC_SEND_TO_CHANNEL_FAILED: CodeNote(
        meaning=f"{_RPC} Judging by its name, it could not send on the connection.",
        advice=_LOOK_AT_PEER,
    ),
    ResponseCode.RPC_TIME_OUT: CodeNote(
        meaning=f"{_RPC} Judging by its name, no answer arrived in time.",
        advice=_LOOK_AT_PEER,
    ),
}

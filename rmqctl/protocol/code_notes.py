"""What each response code means to an operator, and what to do about it.

Sources: the processors and clients of RocketMQ 4.9.7 and 5.4.0, and both versions' answers. "By its name" marks
what nothing but the name tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqctl.protocol.codes import ResponseCode


@dataclass(frozen=True, slots=True)
class CodeNote:
    """One response code in plain words: what happened, and what to do now."""

    meaning: str
    advice: str


_CONTROLLER = "Only 5.x brokers and administrators talk to a controller; consumers do not meet it."
_LOOK_AT_CONTROLLER = (
    "Look at the logs of the controller and of the broker. `rmqctl cluster list` shows which brokers are registered."
)
_RPC = "RocketMQ's own RPC client makes this code inside a Java process."
_LOOK_AT_PEER = "Look at the log of the process that reported it, for the address it tried to call."

RESPONSE_NOTES: dict[ResponseCode, CodeNote] = {
    ResponseCode.SUCCESS: CodeNote(
        meaning=(
            "The peer has carried out the request, or says so. It does not prove that a name exists: for a topic that "
            "nobody knows, 4.9 and 5.x both answer a maximum and minimum offset of 0."
        ),
        advice=(
            'Mostly ignore the remark, but on 5.x "Offset has been previously reset" means that a commit was not '
            "written. Compare what you wrote with `rmqctl offset show GROUP`."
        ),
    ),
    ResponseCode.SYSTEM_ERROR: CodeNote(
        meaning=(
            "The peer failed while it handled the request; the remark holds the Java exception or a reason such as "
            '"no consumer for this group". 4.9 also answers it to refused credentials and wrong parameters, where 5.x '
            "says 16 and 29."
        ),
        advice=(
            "Read the remark. A NullPointerException mostly means that a field was missing or the group is not "
            'connected; "no consumer for this group" means that nobody of it is connected to this broker; a refused '
            "signature on 4.9 means wrong credentials."
        ),
    ),
    ResponseCode.SYSTEM_BUSY: CodeNote(
        meaning=(
            "The broker is overloaded and turns the request away. The remark begins with [REJECTREQUEST], [OVERLOAD], "
            "[PCBUSY_CLEAN_QUEUE], [TIMEOUT_CLEAN_QUEUE] or [PC_SYNCHRONIZED]."
        ),
        advice="Try again after a pause. If it stays, look at the load and the disk of that one broker.",
    ),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: CodeNote(
        meaning=(
            "The peer does not know this request: it is too old for it, or it is a proxy, whose remoting port serves "
            "few requests. A 4.9 name server does not even say this; it never answers an unknown request."
        ),
        advice=(
            "Talk to the broker itself and not to a proxy: `rmqctl cluster list` asks the name server for the "
            "brokers' addresses. If it is the broker, the request needs a newer release."
        ),
    ),
    ResponseCode.TRANSACTION_FAILED: CodeNote(
        meaning="By its name, a transaction failed. It concerns transactional producers, not consumer groups.",
        advice="Look at the remark and at the producer's log; no consumer group needs attention.",
    ),
    ResponseCode.FLUSH_DISK_TIMEOUT: CodeNote(
        meaning="The broker has stored the message, but its flush to disk was late. Consumers get the message.",
        advice="Do not send it again without need, or it comes twice. If it is frequent, look at the broker's disk.",
    ),
    ResponseCode.SLAVE_NOT_AVAILABLE: CodeNote(
        meaning=(
            "The master has stored the message, but had no slave to copy it to. Consumers get the message; it is safe "
            "only as long as the master is."
        ),
        advice=(
            "Do not send it again without need, or it comes twice. See in `rmqctl cluster list` whether the slave is "
            "registered."
        ),
    ),
    ResponseCode.FLUSH_SLAVE_TIMEOUT: CodeNote(
        meaning=(
            "The master has stored the message, but the slave was late to confirm its copy. Consumers get the message."
        ),
        advice=(
            "Do not send it again without need, or it comes twice. If it is frequent, look at the slave and at the "
            "network between the two."
        ),
    ),
    ResponseCode.MESSAGE_ILLEGAL: CodeNote(
        meaning=(
            "The broker refuses the message itself: too large (by default over 4 MiB), properties over 32767 bytes, a "
            "topic name over 127 characters, a delay too far ahead, or a batch for a %RETRY% topic."
        ),
        advice="Change the message at its producer; sent again as it is, it will be refused again.",
    ),
    ResponseCode.SERVICE_NOT_AVAILABLE: CodeNote(
        meaning="The broker does not serve: it is starting, shutting down, or its disk is full.",
        advice=(
            "Wait if somebody is restarting it, else look at its disk first. `rmqctl cluster list` shows which "
            "brokers are registered."
        ),
    ),
    ResponseCode.VERSION_NOT_SUPPORTED: CodeNote(
        meaning="By its name, a version that the peer does not support. Consumers are not known to meet it.",
        advice="Compare the releases of the client and of the broker.",
    ),
    ResponseCode.NO_PERMISSION: CodeNote(
        meaning=(
            "The peer refuses. A permission bit of the broker or topic is off, consuming or broadcasting is disabled "
            "for the group, the topic is a system topic, the setting is protected, or, on 5.x, the pair of group and "
            "topic is forbidden or access control says no; 4.9 reports a refusal by access control, and some others, "
            "as 1."
        ),
        advice=(
            "The remark says which. Check the credentials and their rights on topic and group, then the topic's perm, "
            "then the group's consumeEnable; each broker has its own copy of both."
        ),
    ),
    ResponseCode.TOPIC_NOT_EXIST: CodeNote(
        meaning="The topic does not exist on this broker, or no registered broker has told this name server about it.",
        advice=(
            "Check the spelling, and with `rmqctl cluster list` that the brokers are registered. A missing %RETRY% "
            "topic appears with the first heartbeat of its group."
        ),
    ),
    ResponseCode.TOPIC_EXIST_ALREADY: CodeNote(
        meaning=(
            "By its name, the topic exists already. Consumers are not known to meet it, and creating a topic again "
            "with equal settings is answered with 0."
        ),
        advice="Look at the settings that the topic has now before you change anything.",
    ),
    ResponseCode.PULL_NOT_FOUND: CodeNote(
        meaning=(
            "The queue has no message at this offset yet: the consumer has caught up, or the queue is empty. It is "
            "the ordinary end of a held pull."
        ),
        advice=(
            "Nothing to do. If you do expect messages, `rmqctl offset show GROUP` compares the group's offset with "
            "the end of the queue."
        ),
    ),
    ResponseCode.PULL_RETRY_IMMEDIATELY: CodeNote(
        meaning=(
            "Messages were read, but none passed the filter; the consumer goes on behind them. A few in a row are "
            "ordinary for tag and SQL92 filters."
        ),
        advice=(
            "If a member misses messages, compare the tag expressions of all members: the newest by its client's "
            "clock rules for the whole group, and the others lose messages silently."
        ),
    ),
    ResponseCode.PULL_OFFSET_MOVED: CodeNote(
        meaning=(
            "The offset asked for is below the queue's minimum or above its maximum, or a 5.x broker has been told to "
            "reset it. The answer names the offset to go on from."
        ),
        advice=(
            "Ordinary once after a reset. Else look at `rmqctl offset show GROUP`: below the minimum, messages were "
            "deleted unread; above the maximum, the topic was created anew or a reset went wrong."
        ),
    ),
    ResponseCode.QUERY_NOT_FOUND: CodeNote(
        meaning=(
            "Nothing is stored for the question: no offset of the group for this queue, no such key on the name "
            "server, or no message. For a missing offset brokers often answer 0 instead, 4.9 even if the topic does "
            "not exist."
        ),
        advice=(
            "For an offset, the group has not committed on this queue; `rmqctl offset show GROUP` shows the others. "
            "For a message, check key and time: it may be deleted already."
        ),
    ),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: CodeNote(
        meaning="The broker cannot read the subscription's filter expression.",
        advice=(
            "Correct the tag or SQL92 expression in the consumer. Do not rely on this code for SQL92: a pull that "
            "brings its own invalid expression gets all messages, unfiltered."
        ),
    ),
    ResponseCode.SUBSCRIPTION_NOT_EXIST: CodeNote(
        meaning=(
            "The broker knows no such subscription: nobody of the group is registered there, or a member with other "
            "topics has overwritten it."
        ),
        advice=(
            "Make all members of the group subscribe to the same topics. If only one broker says so, check that the "
            "clients reach it."
        ),
    ),
    ResponseCode.SUBSCRIPTION_NOT_LATEST: CodeNote(
        meaning=(
            "The broker's copy of the subscription is older than the member's. Ordinary for seconds after a change, "
            "until the heartbeat arrives."
        ),
        advice=(
            "If it stays, the member's heartbeats do not reach this broker: check the network between them and the "
            "client's log."
        ),
    ),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: CodeNote(
        meaning=(
            "This broker has no configuration for the group, and may not create it (autoCreateSubscriptionGroup is "
            "off). 5.x also says so when an offset of an unknown group is written or reset; 4.9 writes such an offset "
            "unchecked, and its reset answers 1."
        ),
        advice=(
            "Check the spelling with `rmqctl group list`. Each broker has its own copy of the configuration: create "
            "the group on every master."
        ),
    ),
    ResponseCode.FILTER_DATA_NOT_EXIST: CodeNote(
        meaning="The broker has no SQL92 filter for this group and topic. It concerns SQL92 subscriptions only.",
        advice=(
            "Wait for the member's next heartbeat (every 30 s). If it stays, check that heartbeats reach this broker."
        ),
    ),
    ResponseCode.FILTER_DATA_NOT_LATEST: CodeNote(
        meaning=(
            "The broker's SQL92 filter for this group and topic is older than the member's. It concerns SQL92 "
            "subscriptions only."
        ),
        advice=(
            "Wait for the member's next heartbeat (every 30 s). If it stays, check that heartbeats reach this broker."
        ),
    ),
    ResponseCode.INVALID_PARAMETER: CodeNote(
        meaning=(
            "A field of the request is out of range or malformed, such as a queue id that the topic does not have or "
            "an illegal topic name. Only 5.x answers it; 4.9 mostly answers 1."
        ),
        advice="Read the remark, and compare the queue id with the queues that the topic has now.",
    ),
    ResponseCode.TRANSACTION_SHOULD_COMMIT: CodeNote(
        meaning=(
            "By its name, the verdict that a transaction is to be committed. It concerns transactional producers, not "
            "consumer groups."
        ),
        advice="Look at the producer; no consumer group needs attention.",
    ),
    ResponseCode.TRANSACTION_SHOULD_ROLLBACK: CodeNote(
        meaning=(
            "By its name, the verdict that a transaction is to be rolled back. It concerns transactional producers, "
            "not consumer groups."
        ),
        advice="Look at the producer; no consumer group needs attention.",
    ),
    ResponseCode.TRANSACTION_STATE_UNKNOW: CodeNote(
        meaning=(
            "By its name, nobody knows yet how a transaction ended. It concerns transactional producers, not consumer "
            "groups."
        ),
        advice="Look at the producer; no consumer group needs attention.",
    ),
    ResponseCode.TRANSACTION_STATE_GROUP_WRONG: CodeNote(
        meaning=(
            "By its name, a transaction's state was given for the wrong producer group. It concerns transactional "
            "producers, not consumer groups."
        ),
        advice="Look at the producer's group name; no consumer group needs attention.",
    ),
    ResponseCode.NO_BUYER_ID: CodeNote(
        meaning=(
            "By its name, a message without a buyer id, a property of old and commercial editions. Consumers are not "
            "known to meet it."
        ),
        advice="Read the remark, and ask whoever runs that edition.",
    ),
    ResponseCode.NOT_IN_CURRENT_UNIT: CodeNote(
        meaning="By its name, the request belongs to another unit than the peer's. Consumers are not known to meet it.",
        advice="Compare the unit names of client and cluster.",
    ),
    ResponseCode.CONSUMER_NOT_ONLINE: CodeNote(
        meaning=(
            "Nobody of the group is connected to this broker. It answers the question for connections (203), and a "
            "reset (222) on 4.9 and on any 5.x broker that does not reset by itself; a 5.x broker that does needs "
            "nobody."
        ),
        advice=(
            "Ask the other brokers before you call the group dead, and think of a proxy: its clients are not "
            "registered at the broker. If `rmqctl offset show GROUP` moves between two calls, somebody consumes."
        ),
    ),
    ResponseCode.CONSUME_MSG_TIMEOUT: CodeNote(
        meaning=(
            "The broker handed the request on to the client, and the client did not answer in time (10 s for its "
            "running info)."
        ),
        advice="The client hangs, pauses or has just gone: look at its process, and take its thread stacks there.",
    ),
    ResponseCode.NO_MESSAGE: CodeNote(
        meaning=(
            "POP: the queue has no message at the offset that was to be acknowledged or hidden longer. A late "
            "acknowledgement is not the reason; that is answered with 0."
        ),
        advice="Check the client: for a retried message, topic and queue must be those of the retry topic.",
    ),
    ResponseCode.POLLING_FULL: CodeNote(
        meaning=(
            "5.x: the broker holds too many waiting POP requests already. 4.9: UPDATE_AND_CREATE_ACL_CONFIG_FAILED, "
            "an account was not written."
        ),
        advice=(
            "5.x: try again after a pause, and count the clients that wait. 4.9: read the remark, and check the "
            "account's fields."
        ),
    ),
    ResponseCode.POLLING_TIMEOUT: CodeNote(
        meaning=(
            '5.x: POP found no message in time, which is ordinary when idle; with "pop message is timeout too much" '
            "the client's clock is behind the broker's. 4.9: DELETE_ACL_CONFIG_FAILED, an account was not deleted."
        ),
        advice=(
            "5.x: nothing to do when idle; with that remark set the clocks, for until then POP gets nothing. 4.9: "
            "read the remark, and check the access key."
        ),
    ),
    ResponseCode.BROKER_NOT_EXIST: CodeNote(
        meaning=(
            "5.x: by its name, the broker asked for does not exist. 4.9: UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, the "
            "list of always admitted addresses was not written."
        ),
        advice="5.x: compare the name with `rmqctl cluster list`. 4.9: read the remark, and check the addresses.",
    ),
    ResponseCode.BROKER_DISPATCH_NOT_COMPLETE: CodeNote(
        meaning="By its name, the broker has not dispatched all stored messages to its queues yet.",
        advice="Try again after a pause; if it stays, look at the broker's disk and load.",
    ),
    ResponseCode.BROADCAST_CONSUMPTION: CodeNote(
        meaning=(
            "Made by the Java admin client, not by a broker: the group is broadcasting, so its clients keep their "
            "offsets themselves."
        ),
        advice="Judge such a group by its clients: offsets and lag that a broker shows for it mean nothing.",
    ),
    ResponseCode.FLOW_CONTROL: CodeNote(
        meaning="The peer slows this client down. A Java push consumer pulls again after 20 ms.",
        advice="Nothing to do if it passes; else look at the load of the broker or proxy.",
    ),
    ResponseCode.NOT_LEADER_FOR_QUEUE: CodeNote(
        meaning="Static topics of 5.x: this broker does not lead the queue that was asked for.",
        advice=(
            "The client's route is old; Java clients refresh theirs every 30 s. If it stays, see in `rmqctl cluster "
            "list` whether all brokers are registered."
        ),
    ),
    ResponseCode.ILLEGAL_OPERATION: CodeNote(
        meaning=(
            "By its name, an operation that is not allowed. The 5.4.0 broker answers it when it ends a transaction "
            "(37) or recalls a delayed message (370)."
        ),
        advice="Read the remark, and look at the producer; no consumer group needs attention.",
    ),
    ResponseCode.GO_AWAY: CodeNote(
        meaning=(
            "The server is shutting down gracefully and asks the client to reconnect (since 5.2). It is sent only to "
            "clients that call themselves newer than V5_3_1, which rmqctl does not."
        ),
        advice=(
            "Try again; a client should reconnect by itself. See in `rmqctl cluster list` whether the broker is back."
        ),
    ),
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH: CodeNote(
        meaning=f"By its name, the controller refuses a request with an outdated master epoch. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: CodeNote(
        meaning=(
            "By its name, the controller refuses a request with an outdated epoch of the set of replicas in sync. "
            f"{_CONTROLLER}"
        ),
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_MASTER: CodeNote(
        meaning=(
            f"By its name, the broker that acts as master is not the master that the controller knows. {_CONTROLLER}"
        ),
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_REPLICAS: CodeNote(
        meaning=f"By its name, the request lists replicas that the controller does not accept. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE: CodeNote(
        meaning=f"By its name, there is no master that could be named. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_REQUEST: CodeNote(
        meaning=f"By its name, the controller cannot use the request. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE: CodeNote(
        meaning=f"By its name, the controller does not see the broker alive. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_NOT_LEADER: CodeNote(
        meaning=f"By its name, the controller that was asked is not the leader of its controllers. {_CONTROLLER}",
        advice="Ask the leader; if there is none, look at the controllers' logs.",
    ),
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST: CodeNote(
        meaning=f"By its name, the controller holds no data of this broker. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA: CodeNote(
        meaning=f"By its name, the order to forget a broker's data was not valid. {_CONTROLLER}",
        advice="Check the broker's names and ids in the order.",
    ),
    ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED: CodeNote(
        meaning=f"By its name, the broker has to register with the controller first. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: CodeNote(
        meaning=f"By its name, no new master is elected because the old one is still there. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED: CodeNote(
        meaning=f"By its name, the controller could not elect a master. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: CodeNote(
        meaning=f"By its name, the set of replicas in sync could not be changed. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_BROKER_ID_INVALID: CodeNote(
        meaning=f"By its name, the broker's id is not valid. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR: CodeNote(
        meaning=f"By its name, the controller's own replication by JRaft failed. {_CONTROLLER}",
        advice="Look at the controllers' logs.",
    ),
    ResponseCode.CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS: CodeNote(
        meaning=f"By its name, the controller has no record of when brokers were last alive. {_CONTROLLER}",
        advice=_LOOK_AT_CONTROLLER,
    ),
    ResponseCode.LMQ_QUOTA_EXCEEDED: CodeNote(
        meaning="The broker has as many light queues as it may, so that no lite topic can be added (since 5.5.0).",
        advice="Lite topics expire (lite.topic.expiration of their parent). The broker's maxLmqConsumeQueueNum allows "
        "more.",
    ),
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: CodeNote(
        meaning="A client, or all of them at a broker, have as many lite subscriptions as they may (since 5.5.0).",
        advice="Unsubscribe from lite topics that are done with. lite.sub.client.quota of the group, and the broker's "
        "maxLiteSubscriptionCount, allow more.",
    ),
    ResponseCode.USER_NOT_EXIST: CodeNote(
        meaning="Access control (since 5.3.0): this user does not exist.",
        advice="Check the spelling of the user name; if it is right, have the user created.",
    ),
    ResponseCode.POLICY_NOT_EXIST: CodeNote(
        meaning="Access control (since 5.3.0): there is no such rule for this user.",
        advice="Check the spelling of the user and of the resource; if both are right, have the rule created.",
    ),
    ResponseCode.RPC_UNKNOWN: CodeNote(
        meaning=f"{_RPC} By its name, it failed for a reason without a code of its own.",
        advice=_LOOK_AT_PEER,
    ),
    ResponseCode.RPC_ADDR_IS_NULL: CodeNote(
        meaning=f"{_RPC} By its name, it knew no address to send to.",
        advice=_LOOK_AT_PEER,
    ),
    ResponseCode.RPC_SEND_TO_CHANNEL_FAILED: CodeNote(
        meaning=f"{_RPC} By its name, it could not send on the connection.",
        advice=_LOOK_AT_PEER,
    ),
    ResponseCode.RPC_TIME_OUT: CodeNote(
        meaning=f"{_RPC} By its name, no answer came in time.",
        advice=_LOOK_AT_PEER,
    ),
}

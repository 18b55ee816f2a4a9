"""One sentence for each request: what it does, and the side effects that its name does not show.

Sources: the request processors of RocketMQ 4.9.7 and 5.4.0, and both versions' answers. "5.x" alone means since 5.0.
"""

from __future__ import annotations

from rmqctl.protocol.codes import RequestCode

_DEAD = "Not answered by any RocketMQ release since 4.9"

REQUEST_NOTES: dict[RequestCode, str] = {
    RequestCode.SEND_MESSAGE: (
        "Stores one message, sent with long header field names; creates the topic where the broker allows that."
    ),
    RequestCode.PULL_MESSAGE: (
        "Reads one queue from an offset and may wait at the broker until a message arrives; creates an unknown group "
        "where autoCreateSubscriptionGroup is on (the default), and commits an offset if its commit flag is set."
    ),
    RequestCode.QUERY_MESSAGE: (
        "Finds messages by key in a broker's hash index; the result may include other keys with the same hash."
    ),
    RequestCode.QUERY_BROKER_OFFSET: f"{_DEAD}; judging by its name, it asks for a broker's offset.",
    RequestCode.QUERY_CONSUMER_OFFSET: (
        "Reads the offset that a group has stored for one queue; 0 may also mean that no offset is stored."
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: (
        "Stores a group's offset for one queue, even backwards: 4.9 checks nothing, and 5.x answers success but writes "
        "nothing while a server-side reset of the queue is pending."
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: "Creates a topic on one broker, or changes its configuration.",
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (
        "Creates or changes several topics on one broker (since 5.3.0), but stops at the first unchanged one and still "
        "answers success."
    ),
    RequestCode.GET_ALL_TOPIC_CONFIG: (
        "Reads the configuration of every topic on one broker; 5.x answers in pages on request."
    ),
    RequestCode.GET_TOPIC_CONFIG_LIST: f"{_DEAD}; judging by its name, it lists topic configurations.",
    RequestCode.GET_TOPIC_NAME_LIST: f"{_DEAD}; judging by its name, it lists topic names.",
    RequestCode.UPDATE_BROKER_CONFIG: "Changes settings of a running broker.",
    RequestCode.GET_BROKER_CONFIG: "Reads a broker's settings.",
    RequestCode.TRIGGER_DELETE_FILES: f"{_DEAD}; judging by its name, it makes a broker delete files.",
    RequestCode.GET_BROKER_RUNTIME_INFO: (
        "Reads a broker's figures: version, message rates, disk use, thread pool queues, delivery of delayed messages."
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (
        "Finds the offset in one queue for a store time; past the last message 5.x answers the end of the queue and "
        "4.9 the last message, and an unknown topic or queue gets 0."
    ),
    RequestCode.GET_MAX_OFFSET: (
        "Reads the offset that the next message of a queue will get; an unknown topic or queue gets 0."
    ),
    RequestCode.GET_MIN_OFFSET: "Reads the lowest offset that a queue still has; an unknown topic or queue gets 0.",
    RequestCode.GET_EARLIEST_MSG_STORETIME: (
        "Reads when a queue's earliest message was stored; -1 if the queue has no message."
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: "Reads one message at its commit log offset.",
    RequestCode.HEART_BEAT: (
        "Registers a client's groups and subscriptions; creates unknown groups where autoCreateSubscriptionGroup is on "
        "(the default) and their %RETRY% topics, and removes for the whole group every topic that the heartbeat does "
        "not name."
    ),
    RequestCode.UNREGISTER_CLIENT: (
        "Unregisters a client immediately; must be sent on the connection that registered the client."
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: (
        "Sends a message back for a later retry or, after the last attempt, to the dead-letter topic; creates an "
        "unknown group where autoCreateSubscriptionGroup is on (the default), and answers success but loses the "
        "message if the group's retryQueueNums is 0 or less."
    ),
    RequestCode.END_TRANSACTION: "Commits or rolls back a transactional message.",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: (
        "Lists the client ids of a group's members that are connected to one broker; code 1 if no member is connected."
    ),
    RequestCode.CHECK_TRANSACTION_STATE: (
        "Sent by a broker to a producer: asks whether to commit a transactional message."
    ),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: (
        "Sent by a broker to the members of a group, without an answer: the membership has changed, so they rebalance "
        "immediately."
    ),
    RequestCode.LOCK_BATCH_MQ: (
        "Locks queues of a group for one client for 60 s; it cannot merely query a lock, because it locks a free queue."
    ),
    RequestCode.UNLOCK_BATCH_MQ: "Releases queues that a client has locked.",
    RequestCode.GET_ALL_CONSUMER_OFFSET: (
        "Reads the stored offsets of all groups on one broker, possibly megabytes; 5.x with configManagerVersion=v2 "
        "may answer an empty table."
    ),
    RequestCode.GET_ALL_DELAY_OFFSET: "Reads how far a broker has delivered each delay level.",
    RequestCode.CHECK_CLIENT_CONFIG: "Checks a client's SQL92 filter; tag filters always pass.",
    RequestCode.GET_CLIENT_CONFIG: f"{_DEAD}; judging by its name, it asks for a client's settings.",
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: "Creates or changes an ACL 1.0 account on a 4.x broker.",
    RequestCode.DELETE_ACL_CONFIG: "Deletes an ACL 1.0 account on a 4.x broker.",
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: "Reads the version of a 4.x broker's ACL 1.0 configuration.",
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: (
        "Changes the list of addresses that a 4.x broker's ACL 1.0 always admits."
    ),
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: "Reads all ACL 1.0 accounts of a 4.x broker, including their secrets.",
    RequestCode.GET_TIMER_CHECK_POINT: "Reads the timer's checkpoint on a 5.x broker.",
    RequestCode.GET_TIMER_METRICS: "Reads the timer's metrics on a 5.x broker.",
    RequestCode.PUT_KV_CONFIG: "Stores a key and its value in a namespace of the name server.",
    RequestCode.GET_KV_CONFIG: "Reads the value of a key in a namespace of the name server.",
    RequestCode.DELETE_KV_CONFIG: "Deletes a key in a namespace of the name server.",
    RequestCode.REGISTER_BROKER: (
        "Sent by a broker to its name servers, by default every 30 s: registers the broker and its topics; a 5.x name "
        "server rejects a new broker with exactly one topic."
    ),
    RequestCode.UNREGISTER_BROKER: "Sent by a broker to its name servers: unregisters the broker.",
    RequestCode.GET_ROUTEINFO_BY_TOPIC: (
        "Asks a name server or proxy which brokers have a topic, and with how many queues."
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: "Reads the clusters, brokers and addresses that a name server knows.",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
        "Creates a group on one broker, or replaces its whole configuration."
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (
        "Reads the configuration of all groups on one broker; unlike 352, it creates no group."
    ),
    RequestCode.GET_TOPIC_STATS_INFO: (
        "Reads the lowest and the next offset of a topic's queues on one broker, and when each was last written."
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: (
        "Reads which members of a group are connected to one broker, and the group's subscriptions there; code 206 if "
        "no member is connected."
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: (
        "Reads which clients of a producer group are connected to one broker; code 1 if no client is connected."
    ),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: (
        "Removes a broker's write permission in one name server's memory; the broker's next registration of a changed "
        "configuration restores it."
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: "Lists the topics that a name server knows.",
    RequestCode.DELETE_SUBSCRIPTIONGROUP: (
        "Deletes a group's configuration on one broker and, with the flag cleanOffset (4.9: removeOffset), its "
        "offsets; the %RETRY% and %DLQ% topics stay, and an unknown group also gets a success."
    ),
    RequestCode.GET_CONSUME_STATS: (
        "Reads the stored offset and the end of each queue that a group consumes on one broker; a queue without a "
        "stored offset shows 0, and an unknown group gets an empty table."
    ),
    RequestCode.SUSPEND_CONSUMER: f"{_DEAD}; judging by its name, it suspends a consumer.",
    RequestCode.RESUME_CONSUMER: f"{_DEAD}; judging by its name, it resumes a consumer.",
    RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER: f"{_DEAD}; judging by its name, it resets an offset in a consumer.",
    RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER: (
        f"{_DEAD}; judging by its name, it resets a consumer's offset in a broker."
    ),
    RequestCode.ADJUST_CONSUMER_THREAD_POOL: f"{_DEAD}; judging by its name, it changes a consumer's thread pool.",
    RequestCode.WHO_CONSUME_THE_MESSAGE: f"{_DEAD}; judging by its name, it asks which client consumed a message.",
    RequestCode.DELETE_TOPIC_IN_BROKER: (
        "Deletes a topic on one broker; 5.x also deletes its POP retry topics and the groups' offsets for it."
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: "Deletes a topic on one name server; an unknown topic also gets a success.",
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: "Registers a topic's route on a 5.x name server.",
    RequestCode.GET_KVLIST_BY_NAMESPACE: (
        "Reads all keys and values in a namespace of the name server; code 22 if the namespace is empty."
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: (
        "Sent by a broker to the connected members of a group: moves them to given offsets; to move, a Java consumer "
        "pauses all its topics for 10 s."
    ),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: (
        "Sent by a broker to a member of a group: asks for the offsets in its memory."
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (
        "Resets a group's offsets for a topic to a time: since 5.2.0 the broker by default stores them and ignores "
        "isForce; earlier brokers store nothing and push them to the connected members."
    ),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (
        "Reads the offsets in the memory of a group's connected members; code 1 if no member is connected."
    ),
    RequestCode.GET_TOPICS_BY_CLUSTER: "Lists the topics of one cluster that a name server knows.",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        "Creates several groups on one broker, or replaces their whole configurations (since 5.3.1)."
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (
        "Lists the groups that are online with a topic or still have stored offsets for it, however old."
    ),
    RequestCode.REGISTER_FILTER_SERVER: (
        "Not answered by 4.9.7 or 5.4.0; judging by its name, it registers a filter server."
    ),
    RequestCode.REGISTER_MESSAGE_FILTER_CLASS: (
        "Not answered by 4.9.7 or 5.4.0; judging by its name, it registers a filter class."
    ),
    RequestCode.QUERY_CONSUME_TIME_SPAN: (
        "Reads how long the next message of each queue has been waiting for a group; without a stored offset, the "
        "delay counts from 1970 and means nothing."
    ),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (
        "Lists the system topics that a name server knows: the names of clusters and brokers."
    ),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "Lists a broker's system topics.",
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: "Makes a broker clean up expired consume queues.",
    RequestCode.GET_CONSUMER_RUNNING_INFO: (
        "Asks a connected consumer, through a broker and for at most 10 s, for its queues, offsets and rates, and on "
        "request for its thread stacks."
    ),
    RequestCode.QUERY_CORRECTION_OFFSET: (
        "Reads the lowest stored offset of each queue over all groups; with filterGroups it first deletes all stored "
        "offsets of those groups."
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: (
        "Makes one connected consumer run its listener on a message, with all the listener's side effects; RocketMQ "
        "itself commits nothing and sends nothing back."
    ),
    RequestCode.SEND_MESSAGE_V2: (
        "Stores one message, sent with one-letter header field names; creates the topic where the broker allows that."
    ),
    RequestCode.GET_UNIT_TOPIC_LIST: "Lists the unit topics that a name server knows.",
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: "Lists the topics with unit subscriptions that a name server knows.",
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (
        "Lists the topics known to a name server that have unit subscriptions but are not unit topics themselves."
    ),
    RequestCode.CLONE_GROUP_OFFSET: (
        "Copies a group's offsets for a topic over those of another group, but does not create that group's "
        "configuration; without a topic it does nothing and answers success."
    ),
    RequestCode.VIEW_BROKER_STATS_DATA: "Reads one of a broker's counters over the last minute, hour and day.",
    RequestCode.CLEAN_UNUSED_TOPIC: "Makes a broker clean up unused topics.",
    RequestCode.GET_BROKER_CONSUME_STATS: (
        "Reads the stored offset and the end of each queue for all groups of one broker; its pull offsets are always 0."
    ),
    RequestCode.UPDATE_NAMESRV_CONFIG: "Changes settings of a running name server.",
    RequestCode.GET_NAMESRV_CONFIG: "Reads a name server's settings.",
    RequestCode.SEND_BATCH_MESSAGE: (
        "Stores a batch of messages of one topic; creates the topic where the broker allows that."
    ),
    RequestCode.QUERY_CONSUME_QUEUE: (
        "Reads raw entries of a queue's index: position, size and tag hash of each message."
    ),
    RequestCode.QUERY_DATA_VERSION: (
        "Sent by a broker to its name servers: asks whether they have its latest topic configuration."
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: (
        "Makes a broker resume the checks of one half (undecided transactional) message."
    ),
    RequestCode.SEND_REPLY_MESSAGE: "Sends the reply to a request message, with long header field names.",
    RequestCode.SEND_REPLY_MESSAGE_V2: "Sends the reply to a request message, with one-letter header field names.",
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: (
        "Sent by a broker to a producer: delivers the reply to its request message."
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: (
        "Restores a broker's write permission in one name server's memory (since 4.9.2)."
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: (
        "Lists all producer groups and their clients that are connected to one broker (since 4.9.4)."
    ),
    RequestCode.DELETE_EXPIRED_COMMITLOG: "Makes a broker delete expired commit log files (since 4.9.4).",
    RequestCode.QUERY_TOPICS_BY_CONSUMER: "Lists the topics for which a group has stored offsets on one 5.x broker.",
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: "Reads a group's subscription to a topic on one 5.x broker.",
    RequestCode.GET_TOPIC_CONFIG: (
        "Reads the configuration of one topic on one 5.x broker; code 17 if the topic does not exist."
    ),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: (
        "Reads a group's configuration on one 5.x broker, and creates the group where autoCreateSubscriptionGroup is "
        "on (the default); 201 reads it without creating it."
    ),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: (
        "Reads or sets on one 5.x broker whether a group may pull a topic; allowing one topic again clears the group's "
        "whole forbidden table."
    ),
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: (
        "Checks how far a broker has written its consume queues to RocksDB (since 5.3.1)."
    ),
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: (
        "Makes a broker export topics, groups or offsets from RocksDB to JSON (since 5.3.2)."
    ),
    RequestCode.LITE_PULL_MESSAGE: "Reads one queue for a lite pull consumer (5.x), as 11 does.",
    RequestCode.RECALL_MESSAGE: "Cancels a delayed message before it is due (since 5.3.2).",
    RequestCode.QUERY_ASSIGNMENT: (
        "Asks a 5.x broker which queues of a topic a client should consume, and whether by pull or by POP."
    ),
    RequestCode.SET_MESSAGE_REQUEST_MODE: "Sets on one 5.x broker whether a group consumes a topic by pull or by POP.",
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: (
        "Reads the topics and groups of one 5.x broker for which pull or POP is set."
    ),
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: "Creates or changes a static topic of 5.x.",
    RequestCode.GET_BROKER_MEMBER_GROUP: "Reads from a 5.x name server which addresses make up one broker name.",
    RequestCode.ADD_BROKER: "Adds a broker to a 5.x broker container.",
    RequestCode.REMOVE_BROKER: "Removes a broker from a 5.x broker container.",
    RequestCode.BROKER_HEARTBEAT: "Sent by a 5.x broker to its name servers or controller: reports that it is alive.",
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: (
        "Sent by a 5.x name server to a broker: reports that the lowest broker id under its name has changed."
    ),
    RequestCode.EXCHANGE_BROKER_HA_INFO: (
        "Sent between 5.x brokers of one name: exchanges their high-availability addresses and state."
    ),
    RequestCode.GET_BROKER_HA_STATUS: "Reads the state of a 5.x broker's replication.",
    RequestCode.RESET_MASTER_FLUSH_OFFSET: "Resets the flush offset of the master that a 5.x broker keeps.",
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: (
        "Sent by a 5.x broker to its controller: changes the in-sync replica set."
    ),
    RequestCode.CONTROLLER_ELECT_MASTER: "Asks a 5.x controller to elect a broker's master.",
    RequestCode.CONTROLLER_REGISTER_BROKER: "Sent by a 5.x broker to its controller: registers the broker.",
    RequestCode.CONTROLLER_GET_REPLICA_INFO: "Reads from a 5.x controller the replicas of a broker.",
    RequestCode.CONTROLLER_GET_METADATA_INFO: "Reads the state of a 5.x controller.",
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: "Reads from a 5.x controller which replicas of brokers are in sync.",
    RequestCode.GET_BROKER_EPOCH_CACHE: "Reads the epochs that a 5.x broker has cached.",
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: (
        "Sent by a 5.x controller to a broker: reports that the broker's role has changed."
    ),
    RequestCode.UPDATE_CONTROLLER_CONFIG: "Changes settings of a 5.x controller.",
    RequestCode.GET_CONTROLLER_CONFIG: "Reads a 5.x controller's settings.",
    RequestCode.CLEAN_BROKER_DATA: "Makes a 5.x controller delete the data of a broker.",
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: (
        "Sent by a 5.x broker to its controller: asks for the next free broker id."
    ),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: "Sent by a 5.x broker to its controller: claims a broker id.",
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: (
        "Changes the flow control of cold data reads on one broker (since 5.1.2)."
    ),
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: (
        "Removes a group's flow control of cold data reads on one broker (since 5.1.2)."
    ),
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: "Reads the flow control of cold data reads on one broker (since 5.1.2).",
    RequestCode.SET_COMMITLOG_READ_MODE: "Sets how one broker reads its commit log (since 5.1.2).",
    RequestCode.AUTH_CREATE_USER: "Creates a user of access control (since 5.3.0).",
    RequestCode.AUTH_UPDATE_USER: "Changes a user of access control (since 5.3.0).",
    RequestCode.AUTH_DELETE_USER: "Deletes a user of access control (since 5.3.0).",
    RequestCode.AUTH_GET_USER: "Reads a user of access control (since 5.3.0).",
    RequestCode.AUTH_LIST_USER: "Lists the users of access control (since 5.3.0).",
    RequestCode.AUTH_CREATE_ACL: "Creates the access rules of a user (since 5.3.0).",
    RequestCode.AUTH_UPDATE_ACL: "Changes the access rules of a user (since 5.3.0).",
    RequestCode.AUTH_DELETE_ACL: "Deletes access rules of a user (since 5.3.0).",
    RequestCode.AUTH_GET_ACL: "Reads the access rules of a user (since 5.3.0).",
    RequestCode.AUTH_LIST_ACL: "Lists access rules (since 5.3.0).",
    RequestCode.SWITCH_TIMER_ENGINE: "Switches a broker's timer engine (since 5.4.0).",
    RequestCode.POP_MESSAGE: (
        "Delivers messages to a member and hides them from the group's other members for a time (5.x); creates an "
        "unknown group where autoCreateSubscriptionGroup is on (the default), and immediately moves the group's offset."
    ),
    RequestCode.ACK_MESSAGE: (
        "Acknowledges one message that POP has delivered (5.x); a late acknowledgement also gets a success."
    ),
    RequestCode.PEEK_MESSAGE: "Reads messages as POP would, without delivering them (5.x).",
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: (
        "Changes when a message that POP has delivered is redelivered (5.x); the old receipt handle becomes invalid."
    ),
    RequestCode.NOTIFICATION: "Waits until a message is available for POP (5.x).",
    RequestCode.POLLING_INFO: "Reads how many POP requests wait on a queue (5.x).",
    RequestCode.POP_ROLLBACK: "Makes a broker export the POP checkpoints from its key-value service (since 5.3.2).",
    RequestCode.POP_LITE_MESSAGE: "Delivers messages of the lite topics that a client subscribes to (since 5.5.0).",
    RequestCode.LITE_SUBSCRIPTION_CTL: (
        "Adds or removes a client's subscriptions to lite topics on a broker (since 5.5.0)."
    ),
    RequestCode.ACK_LITE_MESSAGE: "Judging by its name, acknowledges a message of a lite topic (since 5.5.0).",
    RequestCode.NOTIFY_UNSUBSCRIBE_LITE: (
        "Sent by a broker to a client: the client has lost a lite topic, for example to another client that has it "
        "exclusively (since 5.5.0)."
    ),
    RequestCode.GET_BROKER_LITE_INFO: "Reads how many lite topics and subscriptions one broker has (since 5.5.0).",
    RequestCode.GET_PARENT_TOPIC_INFO: "Reads how many lite topics a topic has, and its groups (since 5.5.0).",
    RequestCode.GET_LITE_TOPIC_INFO: "Reads the subscribers of a lite topic, and its offsets (since 5.5.0).",
    RequestCode.GET_LITE_CLIENT_INFO: "Reads the lite topics that a client subscribes to (since 5.5.0).",
    RequestCode.GET_LITE_GROUP_INFO: "Reads a group's lag in lite topics (since 5.5.0).",
    RequestCode.TRIGGER_LITE_DISPATCH: (
        "Makes a broker check again for messages of a group's lite topics (since 5.5.0)."
    ),
    RequestCode.BATCH_ACK_MESSAGE: "Acknowledges several messages that POP has delivered (since 5.1.3).",
}

"""Every command: its words, the module that has it, one line for help. The only table of them.

Modules are imported when their command runs; the lines stand here so that `--help` imports none of them.
"""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "offset": "How far consumer groups have come.",
    "group": "Consumer groups.",
    "whatif": "Changes, tried out before they are made.",
    "cluster": "Clusters and their brokers.",
    "topic": "Topics, their queues and routes.",
    "broker": "One broker and its replicas.",
    "message": "Messages: finding, following, tracing them.",
    "context": "Named clusters of the configuration file.",
    "plugin": "People's own codecs, strategies and site resolvers.",
    "sandbox": "An embedded RocketMQ, for trying things out and for tests.",
}

# words: (module with a function called `command`, summary)
COMMANDS: dict[str, tuple[str, str]] = {
    "offset show": ("rmqctl.cli.offset.show", "Show a group's offsets, lag and owners, queue by queue."),
    "offset peek": ("rmqctl.cli.offset.peek", "Show the messages around a group's committed offsets."),
    "group list": ("rmqctl.cli.group.list", "List all groups with members, state and lag."),
    "group describe": ("rmqctl.cli.group.describe", "Show all of a group: state, progress, members, what disagrees."),
    "group members": ("rmqctl.cli.group.members", "Show who is in a group, as brokers and clients tell it."),
    "group subscriptions": (
        "rmqctl.cli.group.subscriptions",
        "Show which topics and filters a group wants, and who differs.",
    ),
    "group config": ("rmqctl.cli.group.config", "Show how each broker has a group configured."),
    "whatif allocate": ("rmqctl.cli.whatif.allocate", "Show who would get which queue after a change."),
    "whatif churn": ("rmqctl.cli.whatif.churn", "Show what moves when clients restart, with protection and without."),
    "whatif readonly": (
        "rmqctl.cli.whatif.readonly",
        "Show whose failed messages block without write permission at a broker.",
    ),
    "cluster list": ("rmqctl.cli.cluster.list", "List clusters and brokers, and how they run."),
    "topic list": ("rmqctl.cli.topic.list", "List topics, and where brokers disagree about them."),
    "topic route": ("rmqctl.cli.topic.route", "Show a topic's route, as every name server tells it."),
    "topic status": ("rmqctl.cli.topic.status", "Show a topic's queues, and who consumes it."),
    "broker show": ("rmqctl.cli.broker.show", "Show how a broker runs, and its configuration."),
    "message get": ("rmqctl.cli.message.get", "Show single messages in full, by id, key or place."),
    "message find": ("rmqctl.cli.message.find", "Find messages of a topic by time, key, tag, SQL, text or property."),
    "message tail": ("rmqctl.cli.message.tail", "Follow a topic: show messages as they come."),
    "message trace": ("rmqctl.cli.message.trace", "Show a message's way: sent, stored, delivered, by whom, how long."),
    "message decode-id": ("rmqctl.cli.message.decode_id", "Tell what a message id says. Needs no cluster."),
    "schema": ("rmqctl.cli.schema", "Show the JSON Schema of what a command prints."),
    "context list": ("rmqctl.cli.context.list", "List the contexts of the configuration file."),
    "context show": ("rmqctl.cli.context.show", "Show one context, without its secrets."),
    "context use": ("rmqctl.cli.context.use", "Choose the current context."),
    "context set": ("rmqctl.cli.context.set", "Make a context, or change one."),
    "context delete": ("rmqctl.cli.context.delete", "Take a context out of the configuration file."),
    "context test": ("rmqctl.cli.context.test", "Try each context: name servers, brokers, rights."),
    "plugin list": ("rmqctl.cli.plugin.list", "List plugins, what each brings, and which fail."),
    "sandbox up": ("rmqctl.cli.sandbox.up", "Start an embedded name server and brokers."),
    "sandbox seed": ("rmqctl.cli.sandbox.seed", "Fill a sandbox with a situation, such as a stuck group."),
    "sandbox fault": ("rmqctl.cli.sandbox.fault", "Let things go wrong in a sandbox."),
    "sandbox advance": ("rmqctl.cli.sandbox.advance", "Let time pass in a sandbox at once."),
    "sandbox status": ("rmqctl.cli.sandbox.status", "Show which sandboxes run, and what is in them."),
    "sandbox down": ("rmqctl.cli.sandbox.down", "End a sandbox."),
    "demo": ("rmqctl.cli.demo", "Start a sandbox with something wrong in it, and show how to find it."),
    "doctor": ("rmqctl.cli.doctor", "Check the installation, the configuration and the way to the cluster."),
    "completion": ("rmqctl.cli.completion", "Print the script that completes words in bash, zsh or fish."),
    "explain": ("rmqctl.cli.explain", "Tell what a response or request code means, and what to do."),
}

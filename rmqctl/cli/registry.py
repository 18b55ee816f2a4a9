"""The table of all commands: their words, their modules, and one line of help.

A module is imported when its command runs. The help lines are here so that `--help` imports no module.
"""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "offset": "Show and move the offsets of consumer groups.",
    "group": "Inspect, create, change and delete consumer groups.",
    "whatif": "Simulate changes before you make them.",
    "plan": "Show saved plans.",
    "cluster": "List clusters and their brokers.",
    "topic": "Inspect, create, change and delete topics.",
    "broker": "Inspect a broker, and take it out or back in.",
    "dlq": "Count, read, export and replay dead letters.",
    "message": "Find, follow, trace and send messages.",
    "consume": "Consume as a member of a group.",
    "pipeline": "Run Spark jobs over history and whole fleets.",
    "context": "Manage named clusters in the configuration file.",
    "plugin": "List plugins: codecs, strategies, site resolvers, checks.",
    "sandbox": "Run an embedded RocketMQ for experiments and tests.",
}

# The exit code of every error of a command; others have the error's own. 2 is CRITICAL for a scheduler of checks, so
# what no server answered, and a wrong command line, must not be 2.
ERROR_CODES = {"check": 3}

# Other words of commands, which help does not list: words: the command's words. In a group, ls is list.
ALIASES = {"history": "offset history", "undo": "offset undo", "plan apply": "apply"}

# Former names of options, which help does not list, by module: old name: name.
FORMER_OPTIONS: dict[str, dict[str, str]] = {
    "rmqctl.cli.check.run": {"--no-severity": "--fail-on"},
    "rmqctl.cli.dlq.export": {"--to": "--outfile"},
    "rmqctl.cli.offset.export": {"--file": "--outfile"},
}

# words: (module with a function called `command`, summary)
COMMANDS: dict[str, tuple[str, str]] = {
    "offset show": ("rmqctl.cli.offset.show", "Show a group's offsets, lag and owners per queue."),
    "offset peek": ("rmqctl.cli.offset.peek", "Show the messages around a group's committed offsets."),
    "offset export": ("rmqctl.cli.offset.export", "Export a group's stored offsets, for offset import or Kafka tools."),
    "offset reset": ("rmqctl.cli.offset.reset", "Move a group to a time or an offset, with plan, checks and undo."),
    "offset skip": ("rmqctl.cli.offset.skip", "Skip a backlog: move a group to the end of its queues."),
    "offset clone": ("rmqctl.cli.offset.clone", "Copy the offsets of one group to another."),
    "offset delete": ("rmqctl.cli.offset.delete", "Delete stored offsets, including those of deleted topics."),
    "offset import": ("rmqctl.cli.offset.import_", "Set a group's offsets from a file."),
    "offset history": ("rmqctl.cli.offset.history", "List the changes that were made from this machine."),
    "offset undo": ("rmqctl.cli.offset.undo", "Undo a change: restore a group's previous offsets or settings."),
    "plan show": ("rmqctl.cli.plan.show", "Show a saved plan; needs no cluster."),
    "apply": ("rmqctl.cli.plan.apply", "Apply a saved plan, unless the cluster has drifted since."),
    "clean-expired": (
        "rmqctl.cli.clean_expired.run",
        "Find messages stuck in consumption and free their queues.",
    ),
    "dlq list": ("rmqctl.cli.dlq.list", "List groups with dead letters: how many, and how long they are kept."),
    "dlq show": ("rmqctl.cli.dlq.show", "Show the dead letters of a group."),
    "dlq stats": ("rmqctl.cli.dlq.stats", "Count the dead letters of a group by topic, tag, retries and hour."),
    "dlq export": ("rmqctl.cli.dlq.export", "Export the dead letters of a group to a file, without loss."),
    "dlq replay": ("rmqctl.cli.dlq.replay", "Resend dead letters, each once, with a plan; resumable."),
    "dlq status": ("rmqctl.cli.dlq.status", "List replay ledgers and what is left to send."),
    "group list": ("rmqctl.cli.group.list", "List all groups with members, state and lag."),
    "group describe": ("rmqctl.cli.group.describe", "Show a group in full: state, progress, members, conflicts."),
    "group members": ("rmqctl.cli.group.members", "Show a group's members, as reported by brokers and clients."),
    "group subscriptions": (
        "rmqctl.cli.group.subscriptions",
        "Show a group's topics and filters, and where members differ.",
    ),
    "group config": ("rmqctl.cli.group.config", "Show a group's configuration on each broker."),
    "group create": ("rmqctl.cli.group.create", "Create a group on brokers before its first client connects."),
    "group update": ("rmqctl.cli.group.update", "Change some settings of a group; the others stay."),
    "group delete": ("rmqctl.cli.group.delete", "Delete a group, with or without its offsets."),
    "whatif allocate": ("rmqctl.cli.whatif.allocate", "Show which client would get which queue after a change."),
    "whatif churn": (
        "rmqctl.cli.whatif.churn",
        "Simulate clients and brokers that come and go, with and without protection.",
    ),
    "whatif readonly": (
        "rmqctl.cli.whatif.readonly",
        "Show which groups block if a broker loses its write permission.",
    ),
    "whatif expiry": ("rmqctl.cli.whatif.expiry", "Show how long stuck messages wait until they are sent back."),
    "cluster list": ("rmqctl.cli.cluster.list", "List clusters and brokers: version, rates, disk usage."),
    "topic list": ("rmqctl.cli.topic.list", "List topics, and where brokers disagree about them."),
    "topic route": ("rmqctl.cli.topic.route", "Show a topic's route, as each name server reports it."),
    "topic status": ("rmqctl.cli.topic.status", "Show a topic's queues and the groups that consume it."),
    "topic producers": ("rmqctl.cli.topic.producers", "Show the producers connected to the brokers of a topic."),
    "topic create": ("rmqctl.cli.topic.create", "Create a topic."),
    "topic update": ("rmqctl.cli.topic.update", "Change a topic: queues, permission, attributes."),
    "topic delete": ("rmqctl.cli.topic.delete", "Delete a topic with its messages."),
    "broker show": ("rmqctl.cli.broker.show", "Show a broker's runtime state and configuration."),
    "broker drain": ("rmqctl.cli.broker.drain", "Take write permission from a broker."),
    "broker restore": ("rmqctl.cli.broker.restore", "Give write permission back to a broker."),
    "message get": ("rmqctl.cli.message.get", "Show single messages in full, by id, key or queue offset."),
    "message find": ("rmqctl.cli.message.find", "Find messages by topic, time, key, tag, SQL, text or property."),
    "message tail": ("rmqctl.cli.message.tail", "Follow a topic: show messages as they arrive."),
    "message resend": ("rmqctl.cli.message.resend", "Have one group consume a message once more."),
    "message send": ("rmqctl.cli.message.send", "Send messages to a topic."),
    "consume run": ("rmqctl.cli.consume.run", "Join a group and consume: call a function, run a command, or print."),
    "message trace": ("rmqctl.cli.message.trace", "Trace a message: who sent and consumed it, when and where."),
    "message decode-id": ("rmqctl.cli.message.decode_id", "Decode a message id; needs no cluster."),
    "pipeline run": ("rmqctl.cli.pipeline.run", "Run Spark jobs: read, snapshot, lag, audit and more."),
    "pipeline tables": ("rmqctl.cli.pipeline.tables", "List the tables in a folder, or the files of one."),
    "pipeline optimize": ("rmqctl.cli.pipeline.optimize", "Merge files of tables, and delete those no longer used."),
    "pipeline migrate": ("rmqctl.cli.pipeline.migrate", "Move tables of earlier versions into Delta tables."),
    "pipeline package": ("rmqctl.cli.pipeline.package", "Package rmqctl for a Spark cluster."),
    "schema": ("rmqctl.cli.schema", "Show the JSON Schema of a command's output."),
    "context list": ("rmqctl.cli.context.list", "List the contexts of the configuration file."),
    "context show": ("rmqctl.cli.context.show", "Show a context, without its secrets."),
    "context use": ("rmqctl.cli.context.use", "Set the current context."),
    "context set": ("rmqctl.cli.context.set", "Create or change a context."),
    "context delete": ("rmqctl.cli.context.delete", "Delete a context from the configuration file."),
    "context test": ("rmqctl.cli.context.test", "Test contexts: name servers, brokers, permissions."),
    "plugin list": ("rmqctl.cli.plugin.list", "List plugins, what each provides, and which fail."),
    "sandbox up": ("rmqctl.cli.sandbox.up", "Start an embedded name server and brokers."),
    "sandbox seed": ("rmqctl.cli.sandbox.seed", "Fill a sandbox with a scenario, for example a stuck group."),
    "sandbox fault": ("rmqctl.cli.sandbox.fault", "Inject faults into a sandbox."),
    "sandbox advance": ("rmqctl.cli.sandbox.advance", "Advance the clock of a sandbox."),
    "sandbox status": ("rmqctl.cli.sandbox.status", "Show running sandboxes and their contents."),
    "sandbox down": ("rmqctl.cli.sandbox.down", "Stop a sandbox."),
    "demo": ("rmqctl.cli.sandbox.demo", "Start a sandbox with faults, and show how to find them."),
    "diagnose": ("rmqctl.cli.diagnose.run", "Find problems with groups and suggest the next commands."),
    "check": ("rmqctl.cli.check.run", "Check groups against limits, for CI and monitoring: exit code 0, 1, 2 or 3."),
    "watch": ("rmqctl.cli.watch.run", "Watch groups over time: verdicts, recording, metrics, notifications."),
    "top": ("rmqctl.cli.top.run", "Show groups, queues and members live: full screen, with rates and keys."),
    "doctor": ("rmqctl.cli.doctor.run", "Check the installation, configuration and cluster connection."),
    "completion": ("rmqctl.cli.completion.run", "Print the completion script for bash, zsh or fish."),
    "explain": ("rmqctl.cli.explain.run", "Explain a response code, request code or finding."),
}

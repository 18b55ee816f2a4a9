"""Every command: its words, the module that has it, one line for help. The only table of them.

Modules are imported when their command runs; the lines stand here so that `--help` imports none of them.
"""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "offset": "How far consumer groups have come.",
    "group": "Consumer groups.",
    "cluster": "Clusters and their brokers.",
}

# words: (module with a function called `command`, summary)
COMMANDS: dict[str, tuple[str, str]] = {
    "offset show": ("rmqctl.cli.offset.show", "Show a group's offsets, lag and owners, queue by queue."),
    "group list": ("rmqctl.cli.group.list", "List all groups with members, state and lag."),
    "cluster list": ("rmqctl.cli.cluster.list", "List clusters and brokers, and how they run."),
    "explain": ("rmqctl.cli.explain", "Tell what a response or request code means, and what to do."),
}

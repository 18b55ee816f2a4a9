"""The help on the screen of rmqctl top."""

from __future__ import annotations

from rmqctl.cli.watch.display import HEALTH_HELP

HELP_TEXT = f"""\
Keys
  Up Down PgUp PgDn Home End   move; also k j Ctrl-B Ctrl-F g G
  Enter                        open a group: its queues and members
  Escape                       back; in the list of groups: clear the filter
  /                            filter: part of a name, pay*, STALL, lag>1000
                               Enter keeps it, Escape restores the last one
  s  S                         sort by the next column, or the one before
  r                            reverse the order
  h                            hide or show the groups that are OK
  p  Space                     pause the screen; rounds are read meanwhile
  Tab                          the other table
  q                            quit

Health
{HEALTH_HELP}
Columns
  TIME-LAG  age of the oldest unread message; >= is a lower bound
  IN/S      messages that arrived per second, in the last minute
  OUT/S     messages that were consumed per second, in the last minute
  OUT       the same since the window began; a dot is unknown
  CACHED    messages that the member has pulled and not finished
  OK/S      messages per second that the member reports as consumed
  MEMBERS   ~ before a number that was read in an earlier round
A value that is unknown is -.
"""

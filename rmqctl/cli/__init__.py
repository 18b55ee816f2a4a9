"""The command line: parse, call the domain, display. One file a command; output/ turns values into text."""

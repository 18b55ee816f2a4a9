"""The commands that simulate changes before they are made."""

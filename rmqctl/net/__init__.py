"""The only sockets and the only clock of the program."""

"""Groups: lists, members, configuration, tables and dead letters."""

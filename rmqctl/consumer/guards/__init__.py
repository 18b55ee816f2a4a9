"""What keeps a group from losing messages or order because its members consume in different ways."""

"""The user's state folder: where it is, its SQLite files, its locks, and the processes that wrote there."""

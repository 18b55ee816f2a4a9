"""Messages that a consumer acknowledges unread."""

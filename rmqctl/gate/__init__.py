"""Gates: limits for groups, whether they hold, and for how long they must."""

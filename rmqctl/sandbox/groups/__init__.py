"""A broker's consumer groups: configurations, members, subscriptions, offsets, locks."""

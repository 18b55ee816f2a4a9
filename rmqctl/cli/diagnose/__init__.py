"""rmqctl diagnose: findings, as a listing and as a page."""

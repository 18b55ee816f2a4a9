"""Plans and receipts as JSON documents."""

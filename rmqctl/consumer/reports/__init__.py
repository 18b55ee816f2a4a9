"""What a consumer reports, and how often."""

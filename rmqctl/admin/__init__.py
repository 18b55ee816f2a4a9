"""What a cluster can be asked: typed calls, fanned out over all brokers, with partial failure kept as data."""

"""Which messages a subscription selects: tags and SQL92, as brokers and clients decide it."""

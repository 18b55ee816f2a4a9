"""Pure decisions: values (and now_ms) in, values out. No clock, no network, no randomness."""

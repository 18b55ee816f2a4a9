"""rmqctl explain: what codes and findings mean."""

"""Dead letters are sent again; a ledger notes what was sent."""

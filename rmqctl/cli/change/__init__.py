"""What all commands that change something share: options, consent, plans shown and saved, receipts."""

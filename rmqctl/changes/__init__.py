"""Changes: planned, applied, verified, journaled, undone. Here is what changes of all kinds share."""

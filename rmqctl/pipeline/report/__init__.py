"""Pages that show what a job found."""

"""What is concluded from the facts of a group, for checks and for the page; pure."""

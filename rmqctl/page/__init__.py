"""Pages in HTML: the frame that all of them share, and the file that one is written to."""

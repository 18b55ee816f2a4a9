"""HTML pages: their common frame, and writing a page to a file."""

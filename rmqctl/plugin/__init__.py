"""What plugins can add: the hooks, and how their modules are found."""

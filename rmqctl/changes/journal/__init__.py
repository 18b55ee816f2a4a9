"""What was planned, attempted and seen, on this machine; and who may change a group now."""

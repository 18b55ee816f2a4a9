"""Transactional messages of a broker."""

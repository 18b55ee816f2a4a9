"""Situations that can be seeded. Loading them is slow, so this file does not: table.py has all."""

"""Benchmarks beside peers and baselines, in one run: `make bench`. Figures are ratios; machines are noisy."""

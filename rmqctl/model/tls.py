"""The settings of TLS by their names in the configuration file and among options, and ways to verify certificates."""

from __future__ import annotations

TLS_KEYS = ("ca", "cert", "key", "verify")
TLS_VERIFICATIONS = ("full", "ca", "none")

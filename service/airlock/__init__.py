"""Airlock runs untrusted code in locked containers and streams what it prints."""

__version__ = "0.1.0"

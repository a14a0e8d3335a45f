"""The claimdagd daemon. This package module imports nothing, so that importing one part never drags in another."""

__version__ = "0.1.0"

"""Clients of claimdagd. This package module imports nothing heavy, so that the command line starts fast."""

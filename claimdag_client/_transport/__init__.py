"""The blocking connection and the start of a daemon. Standard library only."""

"""The protocol seen from a client, without I/O and without a clock."""

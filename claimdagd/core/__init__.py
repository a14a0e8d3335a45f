"""The pure work graph: no I/O, no clock, no randomness. Imports nothing by itself."""

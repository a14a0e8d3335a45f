"""The operations: each decides, may refuse, and writes through the choke point. This file imports nothing."""

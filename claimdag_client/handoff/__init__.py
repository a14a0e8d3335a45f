"""`claimdag init --agents`: the files by which an agent's host finds claimdag, written and taken back. No daemon."""

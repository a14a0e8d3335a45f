"""`claimdag init --agents`: the files by which an agent's host finds claimdag, written and removed. No daemon."""

"""State that survives the daemon: journal, snapshot, recovery. Import the modules; this file imports nothing."""

"""What the daemon needs of its machine: directory, lock, listener, logs, systemd. Holds no rule of the graph."""

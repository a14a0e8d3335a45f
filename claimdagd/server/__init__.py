"""The shell around the service: directory, lock, socket, loops, signals, systemd. It holds no rule of the graph."""

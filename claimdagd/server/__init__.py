"""The shell around the service: directory, lock, socket, loops, signals and systemd. It must hold no rule of the graph."""

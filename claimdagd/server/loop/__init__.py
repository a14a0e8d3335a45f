"""Connections on an event loop: poller, framer, connection. This room knows no rule of the graph."""

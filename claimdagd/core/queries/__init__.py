"""Read-only views of the graph. Import the modules; this file imports nothing."""

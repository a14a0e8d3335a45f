"""The command line. This package module imports nothing, so that a verb pays for itself alone."""

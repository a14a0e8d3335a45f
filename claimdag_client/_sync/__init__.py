"""The blocking client: a thin pump over the protocol. It may not hold a rule."""

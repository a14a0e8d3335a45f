"""Text for terminals, and graphs as text. Pure, no daemon."""

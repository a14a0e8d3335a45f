"""Files of other tools and plans, read into nodes for submit. No daemon."""

"""The commands run and work: the only room that starts processes under a claim."""

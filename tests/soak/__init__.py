"""Tests that run for as long as they are told to; `python -m tests.soak --help` lists them."""

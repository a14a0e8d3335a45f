"""Programs that measure; `python -m tests.benchmarks` runs them. Nothing here is a test, and nothing asserts a time."""

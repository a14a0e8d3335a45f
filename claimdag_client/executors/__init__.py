"""Work a graph off through any `concurrent.futures.Executor`: the engine runs, the daemon hands out.

`run_on` is async; `claimdag_client.sync.run_on` is the same for scripts.
"""

from claimdag_client.executors.job import Job, Report
from claimdag_client.executors.run import ExecutorBroken, run_on

__all__ = ["ExecutorBroken", "Job", "Report", "run_on"]

"""``archsweep`` that misses a dashboard sooner and asks it more often: tests wait less for the same words."""

from __future__ import annotations

from archsweep import main
from clusters import job_log
from clusters.jobs import jobs

jobs.CONTACT_SECONDS = 3.0
job_log.POLL_SECONDS = (0.2, 0.5)
job_log.SAID_SECONDS = 1.0

if __name__ == "__main__":
    main()

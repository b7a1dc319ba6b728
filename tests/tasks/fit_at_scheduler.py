"""A fit on the workers of a scheduler, as a process of its own: `python fit_at_scheduler.py ORDERS ADDRESS SWEEPS`.

After each sweep a line with its number and the bytes that this host has received and sent; at the end the result.
"""

import sys
import time
from pathlib import Path

from sharded import config, fit, told

from predilect.tasks import compute, held
from predilect.tasks.dask_sweeps import ShardedSweeps
from predilect.tasks.order_files import open_orders


def traffic() -> int:
    """Bytes over this host's interfaces, loopback aside."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    fields = [line.split() for line in lines if not line.strip().startswith("lo:")]
    return sum(int(field[1]) + int(field[9]) for field in fields)


def main() -> None:
    folder, scheduler, max_sweeps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    held.NEW_WORKERS = 1.0

    with compute.workers(scheduler, None, patience=8) as workers:

        def show(sweep: int, bound: float, noise_sd: float) -> None:
            # The first worker may be alone for a while, and so may the one that is left when the other is cut off.
            while sweep in (1, 20) and len(workers.now()) < 2:
                time.sleep(0.2)
            print(sweep, traffic(), flush=True)
            time.sleep(0.1)

        sweeps = ShardedSweeps(workers, folder)
        result = fit(open_orders(folder), config(max_sweeps=max_sweeps), sweeps, on_sweep=show)
        print("end", sweeps.held.n_lost, told(result), flush=True)


if __name__ == "__main__":
    main()

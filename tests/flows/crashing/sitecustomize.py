"""Kills at a chosen point of a flow run; Python reads this by itself where the folder is on its path.

Only in the process of a flow run, and only while there is a plan: JSON with `place` and `name` of a function, `only`
(a text among its arguments), `after` (whether it does its work first), `nth` (the call that counts) and `victims`. The
plan is renamed when it is carried out, so that who comes next lives.
"""

import os
import sys


def _prepare(path: str) -> None:
    import contextlib
    import importlib
    import json
    import signal
    from pathlib import Path
    from typing import Any

    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    owner: Any = importlib.import_module(plan["place"])
    *way, name = plan["name"].split(".")
    for step in way:
        owner = getattr(owner, step)
    whole = getattr(owner, name)
    calls = 0

    def kill() -> None:
        from predilect.tasks import processes

        os.rename(path, f"{path}.done")
        services = Path(os.environ[processes.MARK])
        for victim in plan["victims"]:
            for process in processes.marked(services, victim, spare_flow_runs=True):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        if "flow" in plan["victims"]:
            os.kill(os.getpid(), signal.SIGKILL)

    def dies(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        counts = not plan["only"] or plan["only"] in map(str, (*args, *kwargs.values()))
        calls += counts
        due = counts and calls == plan["nth"]
        if due and not plan["after"]:
            kill()
        found = whole(*args, **kwargs)
        if due and plan["after"]:
            kill()
        return found

    setattr(owner, name, dies)


_plan = os.environ.get("CRASH_PLAN", "")
if "prefect.engine" in sys.orig_argv and os.path.exists(_plan):
    _prepare(_plan)

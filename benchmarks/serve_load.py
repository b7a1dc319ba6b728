"""Latency of the HTTP service under a steady load, and requests lost while the champion is exchanged again and again.

    python benchmarks/serve_load.py [--items 10_000] [--rate 50] [--swaps 20] [--gap 2.0]

Asked: 95 % of /recommend?n=10 answers within 20 ms at 50 requests a second; none fails while the champion changes 20
times. Requests are sent at fixed moments, whether or not the one before was answered.
"""

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig
from predilect.tasks import registry, runs
from predilect.tasks.settings import Settings, prepare_environment
from predilect.tasks.tracking import Tracker


def prepare(settings: Settings, n_items: int) -> None:
    """Two versions of a model of 5,000 users, the first of them champion."""
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        run = runs.RunFolder.create(settings, name, "ratings")
        n = 20 * n_items
        RatingsModel.fit(
            rng.integers(0, 5_000, n).astype(np.int32), rng.integers(0, n_items, n).astype(np.int32),
            rng.integers(1, 6, n).astype(np.float32), RatingScale(1, 5, (1, 2, 3, 4, 5)),
            VBConfig(n_user_latents=10, n_item_latents=10, max_sweeps=5, restarts=1),
            user_ids=IdMap(np.arange(5_000)), item_ids=IdMap(np.arange(n_items)), seed=0,
        ).save(run.path / "model")  # fmt: skip
        tracker = Tracker(run.path, settings)
        tracker.start("predilect-ratings", {"predilect.family": "ratings"})
        tracker.model("ratings", run.path / "model", {"user": [1], "item": [1]})
        tracker.finish("FINISHED")
        tracker.send()
        facts = {"run": {"family": "ratings", "seed": 0}, "dataset": {"digest": "d" * 64, "name": "load"}}
        runs.write_json(run.path / runs.RESULTS, facts | {"split": {"kind": "random:0.2"}})
        run.release()
        registry.register(settings, run.path)
    registry.promote(settings, registry.find(settings, "ratings", "one"), basis=None, reason="load")


async def load(url: str, settings: Settings, rate: float, swaps: int, gap: float) -> None:
    """Ask at `rate`, exchange the champion every `gap` seconds, print what came of it."""
    times: list[float] = []
    failed: list[str] = []

    async with httpx.AsyncClient(base_url=url, timeout=10) as client:

        async def ask(number: int) -> None:
            began = time.perf_counter()
            try:
                answer = await client.get("/recommend", params={"user": number % 5_000, "n": 10})
                if answer.status_code != 200:
                    failed.append(answer.text)
            except httpx.HTTPError as error:
                failed.append(repr(error))
            times.append(time.perf_counter() - began)

        async def exchange() -> None:
            for turn in range(swaps):
                await asyncio.sleep(gap)
                # By a process of its own, as people and flows do it.
                name = "two" if turn % 2 == 0 else "one"
                command = [Path(sys.executable).with_name("predilect"), "promote", "ratings", name]
                process = await asyncio.create_subprocess_exec(
                    *command, env=os.environ | {"PREDILECT_HOME": str(settings.home)}, stdout=subprocess.DEVNULL
                )
                await process.wait()

        exchanging = asyncio.create_task(exchange())
        began, number, asked = time.perf_counter(), 0, []
        while not exchanging.done() or number < 10 * rate:
            asked.append(asyncio.create_task(ask(number)))
            number += 1
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        await asyncio.gather(*asked)
        seen = (await client.get("/metrics")).text
    swapped = next(line.split()[1] for line in seen.splitlines() if line.startswith("predilect_model_swaps "))
    quantiles = 1e3 * np.quantile(times, [0.5, 0.95, 0.99])
    print(
        f"{len(times)} requests at {rate:g} a second, {float(swapped):.0f} exchanges: {len(failed)} failed (asked: 0)"
    )
    print(f"p50 {quantiles[0]:.1f} ms, p95 {quantiles[1]:.1f} ms (asked: ≤ 20), p99 {quantiles[2]:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--gap", type=float, default=2.0)
    options = parser.parse_args()
    settings = Settings(home=Path(tempfile.mkdtemp(prefix="predilect-load-")))
    prepare_environment(settings)
    prepare(settings, options.items)
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    command = [Path(sys.executable).with_name("predilect"), "serve", "ratings", "--port", str(port)]
    server = subprocess.Popen(command, env=os.environ | {"PREDILECT_HOME": str(settings.home)})
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(f"{url}/healthz")
                break
            except httpx.TransportError:
                time.sleep(0.2)
        asyncio.run(load(url, settings, options.rate, options.swaps, options.gap))
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(settings.home)


if __name__ == "__main__":
    main()

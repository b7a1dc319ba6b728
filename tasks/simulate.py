"""Simulated ratings on disk, streamed in blocks, with the truth beside them."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from predilect.data_contracts.schemas import ratings_schema
from predilect.models.errors import ParameterError
from predilect.models.ratings.simulate import SimulationConfig, Truth, draw_blocks, draw_truth
from predilect.tasks import progress
from predilect.tasks.output import need_space, new_folder

TRUTH, FACTS = "truth.npz", "simulation.json"
VERSION = 1
"""Raised when the same parameters and seed give other ratings."""
_BYTES_A_ROW = {"parquet": 12, "csv": 32}
_ROWS_A_GROUP = 1 << 20


def simulate_ratings(
    folder: Path,
    *,
    n_users: int,
    n_items: int,
    n_ratings: int,
    seed: int = 0,
    file_format: Literal["parquet", "csv"] = "parquet",
    **more: Any,
) -> Path:
    """Write `folder/ratings.parquet` (or .csv), and return its path.

    Beside it stand `truth.npz` (the arrays of `Truth`; row k is the user or item with the id k + 1) and
    `simulation.json` (all parameters). more: other fields of `SimulationConfig`. A folder that already holds this very
    simulation is left as it is. Raises ParameterError when the parameters are impossible, DataError when the disk
    has too little room or refuses; then nothing is left behind.
    """
    if file_format not in _BYTES_A_ROW:
        raise ParameterError(f"file_format = {file_format!r} is unknown; choose parquet or csv.")
    unknown = set(more) - set(SimulationConfig.__dataclass_fields__)
    if unknown:
        raise ParameterError(f"{min(unknown)} is not a parameter of the simulation; see SimulationConfig.")
    config = SimulationConfig(n_users, n_items, n_ratings, **more)
    name = f"ratings.{file_format}"
    facts = {"version": VERSION, "seed": seed, "file": name, "parameters": asdict(config)}
    if _is_there(folder, facts):
        return folder / name
    truth_bytes = 4 * (n_users + n_items) * (config.n_latents + 2)
    need_space(folder, 1.1 * (_BYTES_A_ROW[file_format] * n_ratings + truth_bytes))
    truth = draw_truth(config, seed)
    with new_folder(folder, replace=True) as draft:
        _write_table(draft / name, config, truth, seed)
        arrays = {key: value for key, value in vars(truth).items() if isinstance(value, np.ndarray)}
        np.savez(draft / TRUTH, allow_pickle=False, mean=truth.mean, noise_sd=truth.noise_sd, **arrays)
        facts["bytes"] = (draft / name).stat().st_size
        (draft / FACTS).write_text(json.dumps(facts, indent=2), encoding="utf-8")
    return folder / name


def read_truth(folder: Path) -> Truth:
    """The truth behind the ratings in `folder`."""
    with np.load(folder / TRUTH, allow_pickle=False) as stored:
        values: dict[str, Any] = {key: stored[key] for key in stored}
    return Truth(**values | {key: float(values[key]) for key in ("mean", "noise_sd")})


def _is_there(folder: Path, facts: dict[str, Any]) -> bool:
    try:
        found = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        return bool(found == facts | {"bytes": (folder / facts["file"]).stat().st_size})
    except (OSError, ValueError):
        return False


def _write_table(path: Path, config: SimulationConfig, truth: Truth, seed: int) -> None:
    schema = ratings_schema(pa.int64(), pa.int64(), timestamp=True, fold=False)
    written = 0
    with ExitStack() as stack:
        write: Callable[[pa.Table], None]
        if path.suffix == ".parquet":
            writer = stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
            write = lambda table: writer.write_table(table, row_group_size=_ROWS_A_GROUP)  # noqa: E731
        else:
            options = arrow_csv.WriteOptions(quoting_style="none")
            write = stack.enter_context(arrow_csv.CSVWriter(path, schema, write_options=options)).write_table
        for block in draw_blocks(config, truth, seed):
            columns = [block.users.astype(np.int64) + 1, block.items.astype(np.int64) + 1]
            write(pa.table([*map(pa.array, (*columns, block.ratings, block.timestamps))], schema=schema))
            written += len(block.users)
            progress.report("simulate", written / config.n_ratings, f"{written:,} ratings")

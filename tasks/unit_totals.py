"""The metrics of a run by user or ballot, kept so that runs on the same held-out rows can be paired later."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.evaluation.bootstrap import Total
from predilect.models.evaluation.splits import key_of, mixed
from predilect.models.ids import IdMap

TOTALS = "totals.parquet"


def write_totals(run: Path, units: NDArray[Any], totals: Mapping[str, Total], rows: str) -> None:
    """Write `totals.parquet`: a row a unit, in the order of the totals, with each metric's sum and count.

    units: what tells them apart, (U,). rows: what tells the held-out rows from others, such as a digest.
    """
    columns: dict[str, Any] = {"unit": units}
    for name, total in totals.items():
        columns |= {f"{name}.sum": total.sums, f"{name}.count": total.counts}
    roots = ",".join(name for name, total in totals.items() if total.root)
    table = pa.table(columns).replace_schema_metadata({"rows": rows, "roots": roots})
    draft = run / f".{TOTALS}.part"
    pq.write_table(table, draft, compression="zstd")
    draft.rename(run / TOTALS)


def read_totals(run: Path) -> tuple[NDArray[Any], dict[str, Total], str]:
    """The inverse of `write_totals`: units, totals, rows."""
    table = pq.read_table(run / TOTALS)
    said = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    names = [name.removesuffix(".sum") for name in table.column_names if name.endswith(".sum")]
    roots = said["roots"].split(",")
    totals = {
        name: Total(table[f"{name}.sum"].to_numpy(), table[f"{name}.count"].to_numpy(), name in roots) for name in names
    }
    return table["unit"].to_numpy(), totals, said["rows"]


def digest_of(keys: NDArray[np.uint64]) -> str:
    """A digest of rows by their hashes, (N,), whatever their order."""
    return f"{int(keys.sum(dtype=np.uint64)):016x}{len(keys):x}"


def ratings_digest(ids: tuple[IdMap, IdMap], codes: tuple[NDArray[Any], NDArray[Any]], ratings: NDArray[Any]) -> str:
    """A digest of rated pairs. ids, codes: users' and items', as of one table."""
    users, items = (key_of(map(str, each.ids.tolist()), 0)[of] for each, of in zip(ids, codes, strict=True))
    return digest_of(mixed(mixed(users, items), np.asarray(ratings, np.float64).view(np.uint64)))

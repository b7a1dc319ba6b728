"""Arrow schemas of the canonical tables: what ingestion writes and every later task reads."""

import pyarrow as pa

_ID = (pa.int64(), pa.string())
RATINGS_SCHEMA_FIELDS: dict[str, tuple[pa.DataType, ...]] = {
    "user": _ID,
    "item": _ID,
    "rating": (pa.float64(), pa.float32()),
    "timestamp": (pa.int64(),),
    "fold": (pa.string(),),
}
"""The columns of `ratings.parquet` in order, and the types each may have; the first three are always there.

timestamp: unix seconds. fold: the name of the test fold that holds the row; null = none.
"""
RATINGS_REQUIRED = ("user", "item", "rating")


def ratings_schema(user: pa.DataType, item: pa.DataType, *, timestamp: bool, fold: bool) -> pa.Schema:
    """The schema ingestion writes, with these types of ids and these optional columns."""
    fields = [("user", user), ("item", item), ("rating", pa.float64())]
    fields += [("timestamp", pa.int64())] * timestamp + [("fold", pa.string())] * fold
    return pa.schema([pa.field(name, kind, nullable=name == "fold") for name, kind in fields])


def check_schema(schema: pa.Schema) -> list[str]:
    """What is wrong with the schema of a canonical ratings table, one sentence each; empty when nothing is."""
    problems = [f"the column {name} is missing" for name in RATINGS_REQUIRED if name not in schema.names]
    for field in schema:
        allowed = RATINGS_SCHEMA_FIELDS.get(field.name)
        if allowed is None:
            problems.append(f"the column {field.name} is unknown")
        elif field.type not in allowed:
            problems.append(f"the column {field.name} holds {field.type}, not {' or '.join(map(str, allowed))}")
    return problems


def ballots_schema(item: pa.DataType) -> pa.Schema:
    """The schema of `ballots.parquet`: a ballot's items, best first, how many cast it, and its weight in all."""
    return pa.schema(
        [
            pa.field("items", pa.list_(pa.field("element", item, nullable=False)), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
            pa.field("weight", pa.float64(), nullable=False),
        ]
    )

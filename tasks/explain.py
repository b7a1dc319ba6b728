"""What a run's model has learned, for people to read: as facts for JSON, which the command line makes into lines."""

from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.ratings.explain import Similar, dimensions, influences, similar_items, similar_users
from predilect.tasks.item_names import read_names
from predilect.tasks.recommend import data_of, load_model
from predilect.tasks.settings import Settings

LEAST_RATINGS = 20
"""Of an item that stands for a dimension, where there are such."""


def explain(
    run: Path, *, user: str | None = None, item: str | None = None, n: int = 5, names: Path | None = None
) -> dict[str, Any]:
    """With a user and an item: which of the user's ratings, of the test part too, move the prediction.

    With one of them: what is like it. With neither: what the strongest dimensions separate. names: a file with the
    items' names.
    Raises DataError for an id that the model does not know, ParameterError for n < 1.
    """
    if n < 1:
        raise ParameterError(f"n = {n}: give 1 or more.")
    model = load_model(run)
    name = read_names(names) if names else str
    if user is not None and item is not None:
        table = data_of(run, Settings())
        person, thing = _known(table.user_ids, user, "user"), _known(model.item_ids, item, "item")
        mine = table.users == table.user_ids.encode([person])[0]
        items, ratings = table.item_ids.decode(table.items[mine]), table.ratings[mine]
        others = items != thing
        items, ratings = items[others], ratings[others]
        found = influences(model, items, ratings, thing)
        rated = dict(zip(items.tolist(), ratings.tolist(), strict=True))
        return {
            "user": person,
            "item": thing,
            "name": name(thing),
            "mean": found.base + float(found.moved.sum()),
            "base": found.base,
            "influences": [
                {"item": key, "name": name(key), "rating": rated[key], "moved": moved}
                for key, moved in zip(found.ids[:n].tolist(), found.moved[:n].tolist(), strict=True)
            ],
        }
    if item is not None:
        thing = _known(model.item_ids, item, "item")
        return {"item": thing, "name": name(thing), "similar": _similar(similar_items(model, thing, n), name)}
    if user is not None:
        person = _known(model.user_ids, user, "user")
        return {"user": person, "similar": _similar(similar_users(model, person, n), str)}
    least = LEAST_RATINGS if np.sum(model.item_counts >= LEAST_RATINGS) > 4 * n else 1
    return {
        "dimensions": [
            {
                "sd": axis.sd,
                "low": _scored(axis.low_ids, axis.low_scores, axis.low_sds, name),
                "high": _scored(axis.high_ids, axis.high_scores, axis.high_sds, name),
            }
            for axis in dimensions(model, n, least)
        ]
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The facts of `explain` as text."""
    if "influences" in found:
        said = [
            f"User {found['user']}, {found['name']}: {found['mean']:.2f}, where a stranger gets {found['base']:.2f}."
        ]
        return said + [
            f"  {one['moved']:+.2f}  because {one['name']} was rated {one['rating']:g}" for one in found["influences"]
        ]
    if "similar" in found:
        return [
            f"{one['similarity']:5.2f} ({one['low']:5.2f} to {one['high']:5.2f})  {one['name']}"
            for one in found["similar"]
        ]
    said = []
    for number, axis in enumerate(found["dimensions"], 1):
        said.append(f"Dimension {number} moves ratings by {axis['sd']:.2f} (one standard deviation):")
        for end in ("low", "high"):
            said += [f"  {one['score']:+.2f} ± {one['sd']:.2f}  {one['name']}" for one in axis[end]]
            said += ["   …"] if end == "low" else []
    return said or ["No dimension moves ratings: users and items differ by their offsets only."]


def _known(ids: IdMap, text: str, what: str) -> Any:
    """The id as the data have it. Raises DataError when it is not among them."""
    value: Any = text
    if ids.ids.dtype.kind == "i":
        value = int(text) if text.lstrip("-").isdigit() else text
    if ids.encode([value])[0] == UNKNOWN:
        raise DataError(f"The {what} {text!r} is not in the data of this run; correct the id.")
    return value


def _similar(found: Similar, name: Any) -> list[dict[str, Any]]:
    rows = zip(*(column.tolist() for column in found), strict=True)
    return [
        {"id": key, "name": name(key), "similarity": value, "low": low, "high": high} for key, value, low, high in rows
    ]


def _scored(ids: Any, scores: Any, sds: Any, name: Any) -> list[dict[str, Any]]:
    rows = zip(ids.tolist(), scores.tolist(), sds.tolist(), strict=True)
    return [{"item": key, "name": name(key), "score": score, "sd": sd} for key, score, sd in rows]

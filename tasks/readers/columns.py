"""Which column holds what: named by the user, or guessed from common names."""

from collections.abc import Mapping, Sequence

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.readers.base import OPTIONAL, REQUIRED

# Compared in lower case without spaces and punctuation; the first that is there wins.
COMMON_NAMES = {
    "user": "user userid uid customer customerid reviewerid reviewer visitorid accountid memberid personid profileid",
    "item": "item itemid iid movie movieid film filmid product productid parentasin asin book bookid isbn song songid "
    "track trackid artist artistid businessid joke jokeid article articleid sku",
    "rating": "rating ratings score stars star bookrating starrating overall reviewscore grade preference value",
    "timestamp": "timestamp time unixtime unixreviewtime datetime date ts ratedat createdat reviewdate",
    "fold": "fold folds",
}


def find_columns(names: Sequence[str] | None, n_fields: int, columns: Mapping[str, str], label: str) -> dict[str, int]:
    """The position (from 0) of `user`, `item`, `rating` and, where there is one, `timestamp` and `fold`.

    names: the header, or None when there is none; then columns are called "1", "2", … and three or four of
    them are taken to be user, item, rating and timestamp. `columns` goes before every guess.
    Raises DataError when a column is not found, ParameterError when `columns` is impossible.
    """
    unknown = set(columns) - {*REQUIRED, *OPTIONAL}
    if unknown:
        raise ParameterError(f"columns maps {min(unknown)!r}; it may map {', '.join((*REQUIRED, *OPTIONAL))}.")
    use: dict[str, int] = {}
    for name, wanted in columns.items():
        if names is not None and wanted in names:
            use[name] = names.index(wanted)
        elif wanted.isdecimal() and 1 <= int(wanted) <= n_fields:
            use[name] = int(wanted) - 1
        else:
            raise _missing(name, f"no column {wanted!r}", names, n_fields, label)
    for name in (*REQUIRED, *OPTIONAL):
        guess = _guess(name, names, n_fields)
        if name not in columns and guess is not None and guess not in use.values():
            use[name] = guess
        if name in REQUIRED and name not in use:
            raise _missing(name, "no column with a usual name", names, n_fields, label)
    if len(set(use.values())) < len(use):
        raise ParameterError(f"columns maps two names to one column of {label}: {dict(columns)}; map each to its own.")
    return use


def _guess(name: str, names: Sequence[str] | None, n_fields: int) -> int | None:
    if names is None:
        place = (*REQUIRED, *OPTIONAL).index(name)
        return place if n_fields in (3, 4) and place < n_fields else None
    plain = ["".join(c for c in text.lower() if c.isalnum()) for text in names]
    return next((plain.index(common) for common in COMMON_NAMES[name].split() if common in plain), None)


def _missing(name: str, problem: str, names: Sequence[str] | None, n_fields: int, label: str) -> DataError:
    if names is None:
        return DataError(
            f"{label} has {n_fields} columns and no header to tell which is the {name}; call them by number, such as "
            "columns=user:1,item:2,rating:3."
        )
    found = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return DataError(f"{label} has {problem} for the {name} among {found}; name it with columns={name}:COLUMN.")

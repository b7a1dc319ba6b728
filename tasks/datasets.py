"""Public data sets by name: where their files are found, and how they are fetched from their publishers.

Their terms forbid or limit redistribution, so they are never part of this project: each user fetches their own copy.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from predilect.models.errors import DataError
from predilect.tasks import progress
from predilect.tasks.output import cannot_write

_GROUPLENS = "https://files.grouplens.org/datasets"
_TIMEOUT = 30
_PIECE = 1 << 20


@dataclass(frozen=True)
class PublicSet:
    """A published data set.

    reader: its format. names: the set's own name, then other names its folder may have in the data folder.
    archive: the file the publisher offers. url: where, or None when it must be fetched by hand from `page`.
    checksum: "md5:…" or "sha256:…" of the archive.
    """

    reader: str
    names: tuple[str, ...]
    archive: str
    page: str
    url: str | None = None
    checksum: str | None = None


def _movielens(name: str, reader: str, md5: str, *names: str) -> PublicSet:
    return PublicSet(
        reader,
        (name, *names),
        f"{name}.zip",
        "https://grouplens.org/datasets/movielens/",
        f"{_GROUPLENS}/movielens/{name}.zip",
        f"md5:{md5}",
    )


PUBLIC_SETS = (
    _movielens("ml-100k", "ml-100k", "0e33842e24a9c977be4e0107933c0723", "movielens-100k"),
    _movielens("ml-1m", "ml-1m", "c4d9eecfca2ab87c1945afe126590906", "movielens-1m"),
    _movielens("ml-10m", "ml-1m", "ce571fd55effeba0271552578f2648bd", "movielens-10m", "ml-10M100K"),
    _movielens("ml-25m", "ml-25m", "6b51fb2759a8657d3bfcbfc42b592ada", "movielens-25m"),
    PublicSet(
        "lastfm",
        ("lastfm", "hetrec2011-lastfm-2k"),
        "hetrec2011-lastfm-2k.zip",
        "https://grouplens.org/datasets/hetrec-2011/",
        f"{_GROUPLENS}/hetrec2011/hetrec2011-lastfm-2k.zip",
        "sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
    ),
    # The publisher offers Excel workbooks; the sheet is to be saved as CSV.
    PublicSet("jester", ("jester",), "jester-data-1.csv", "https://eigentaste.berkeley.edu/dataset/"),
    PublicSet(
        "bookcrossing",
        ("bookcrossing", "book-crossing", "BX-CSV-Dump"),
        "BX-CSV-Dump.zip",
        "http://www2.informatik.uni-freiburg.de/~cziegler/BX/",
        "http://www2.informatik.uni-freiburg.de/~cziegler/BX/BX-CSV-Dump.zip",
        "md5:37d647ee9e18ba134ea6d78ee4fe5292",
    ),
    # Given out on request only.
    PublicSet("yahoo-music", ("yahoo-music",), "trainIdx1.txt", "https://webscope.sandbox.yahoo.com/"),
)


def public_set(name: str) -> PublicSet | None:
    """The public set of this name, or None."""
    return next((one for one in PUBLIC_SETS if name.lower() in map(str.lower, one.names)), None)


def find(one: PublicSet, data_dir: Path) -> Path | None:
    """The set's folder or file in the data folder; None when it is not there."""
    packed = Path(one.archive).with_suffix(".zip").name
    places = (*one.names, *(f"{name}.zip" for name in one.names), one.archive, f"{one.archive}.gz", packed)
    return next((data_dir / place for place in places if (data_dir / place).exists()), None)


def fetch(one: PublicSet, data_dir: Path) -> Path:
    """Download the set's archive into the data folder, check it, and return its path.

    Raises DataError, saying which file to put where, when it cannot be had or its checksum is wrong.
    """
    name, target = one.names[0], data_dir / one.archive
    by_hand = f"put {one.archive}, or its content in a folder {name}, into {data_dir}"
    if one.url is None:
        raise DataError(
            f"{name} is not in {data_dir} and cannot be downloaded without asking at {one.page}; {by_hand}."
        )
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    was_there = data_dir.exists()
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as stream:
            found = _download(one.url, one.checksum, stream.write, name)
        if one.checksum and found != one.checksum:
            raise DataError(
                f"{one.url} gave a file with the checksum {found}, not {one.checksum}; try again, or get it from "
                f"{one.page} and {by_hand}."
            )
        draft.rename(target)
    except urllib.error.URLError as error:
        raise DataError(
            f"{name} is not in {data_dir} and {one.url} cannot be reached ({error.reason}); download it on a machine "
            f"with a network and {by_hand}."
        ) from error
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):
            draft.unlink()
        if not was_there:
            with suppress(OSError):  # It stays when the archive is in it.
                data_dir.rmdir()
    return target


def _download(url: str, checksum: str | None, write: Callable[[bytes], object], name: str) -> str:
    """Pass the content on in pieces; returns its checksum, of the kind of `checksum`."""
    kind = (checksum or "sha256:").partition(":")[0]
    total = hashlib.new(kind, usedforsecurity=False)
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
        size, done = int(answer.headers.get("Content-Length") or 0), 0
        while piece := _read(answer, url):
            total.update(piece)
            write(piece)
            done += len(piece)
            progress.report("ingest", 0.1 * done / size if size else 0.0, f"{name}: {done / 1e6:,.0f} MB downloaded")
    return f"{kind}:{total.hexdigest()}"


def _read(answer: IO[bytes], url: str) -> bytes:
    """The next piece; a broken connection is told apart from a disk that refuses."""
    try:
        return answer.read(_PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise urllib.error.URLError(f"{type(error).__name__} while reading {url}") from error

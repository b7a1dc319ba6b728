"""Output folders that are complete or absent, and one clear error when the disk refuses."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from predilect.models.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ADVICE = {
    errno.ENOSPC: "free space on that disk or choose another folder",
    errno.EDQUOT: "free space within your quota or choose another folder",
    errno.EFBIG: "raise the limit on file sizes or choose another folder",
    errno.EACCES: "change its permissions or choose another folder",
    errno.EPERM: "change its permissions or choose another folder",
    errno.EROFS: "choose a folder on a disk that can be written",
}


@contextmanager
def new_folder(folder: Path, *, replace: bool) -> Iterator[Path]:
    """A draft folder beside `folder`, renamed to it when the block ends well and removed when it does not.

    replace: what is in `folder` by then goes; without it, it stays and the draft is dropped: another process was
    first. An OSError inside the block becomes a DataError that names the folder.
    """
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        draft.mkdir(parents=True)
        yield draft
        if replace:
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            draft.rename(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def parquet_file(out: Path, schema: "pa.Schema") -> Iterator["pq.ParquetWriter"]:
    """A Parquet file beside `out`, renamed to it when the block ends well and removed when it does not."""
    import pyarrow.parquet as pq

    draft = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        if out.is_dir():
            raise ParameterError(f"out = {str(out)!r}: that is a folder; give the name of a file.")
        out.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(draft, schema) as writer:
            yield writer
        draft.replace(out)
    except OSError as error:
        raise cannot_write(out, error) from error
    finally:
        draft.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> DataError:
    """The error to show when `path` could not be written."""
    reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
    return DataError(f"{path} cannot be written: {reason}; {_ADVICE.get(error.errno or 0, 'choose another folder')}.")


def need_space(folder: Path, n_bytes: float) -> None:
    """Raise DataError when the disk of `folder` (which may not exist yet) has less than `n_bytes` free."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < n_bytes:
        raise DataError(
            f"{folder} needs about {n_bytes / 1e9:.1f} GB, but its disk has {free / 1e9:.1f} GB free; "
            "free space or choose another folder."
        )

"""Where ratings come from: a file, a gzip file, a member of a zip archive or of a folder, opened alike."""

import gzip
import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, cast

from predilect.models.errors import DataError

BLOCK = 16 << 20
"""Bytes read and parsed at a time."""
HEAD = 1 << 18
"""Bytes looked at to recognise a format."""


class Source:
    """A file or folder as the user named it, and the files in it.

    kind: "file" (also gzip: unpacked while it is read), "zip" or "folder".
    members: names of the files inside, relative to the folder or archive; for a file, its own name.
    """

    def __init__(self, path: Path) -> None:
        """Raises DataError when `path` is missing, unreadable, or not what its name says (.zip, .gz)."""
        self.path = path
        with _errors(str(path)):
            exists, is_folder, is_file = path.exists(), path.is_dir(), path.is_file()
        if not exists:
            raise DataError(f"{path} does not exist; give a file, a folder or the name of a public set.")
        if is_folder:
            self.kind: Literal["file", "zip", "folder"] = "folder"
            with _errors(str(path)):
                self.members = tuple(
                    sorted(p.name for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
                )
            return
        if not is_file:
            raise DataError(f"{path} is neither a file nor a folder; save the ratings to a file first.")
        start = self._start()
        if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            self.kind = "zip"
            with _errors(str(path)), zipfile.ZipFile(path) as archive:
                names = [item.filename for item in archive.infolist() if not item.is_dir()]
            self.members = tuple(n for n in names if not n.startswith("__MACOSX/") and not base_name(n).startswith("."))
            if not self.members:
                raise DataError(f"{path} is an empty zip archive; give one that holds a ratings file.")
            return
        if path.suffix == ".zip":
            raise DataError(
                f"{path} is not a zip archive (it starts with {start[:4]!r}); download it again or rename it."
            )
        if path.suffix == ".gz" and start[:2] != b"\x1f\x8b":
            raise DataError(
                f"{path} is not a gzip file (it starts with {start[:4]!r}); download it again or rename it."
            )
        self.kind = "file"
        self.members = (path.name,)

    def _start(self) -> bytes:
        with _errors(str(self.path)), self.path.open("rb") as stream:
            return stream.read(8)

    def find(self, *names: str) -> str | None:
        """The member with one of these base names (case and a final .gz do not matter), or None."""
        for name in names:
            for member in self.members:
                if base_name(member).lower() == name.lower():
                    return member
        return None

    def label(self, member: str) -> str:
        """The file's name in messages: the path as the user gave it, and the member inside."""
        return str(self.path) if self.kind == "file" else f"{self.path}/{member}"

    def short_name(self, member: str) -> str:
        """The file's name in manifests: without the folders above."""
        return self.path.name if self.kind == "file" else f"{self.path.name}/{member}"

    def head(self, member: str) -> bytes:
        """The first bytes, unpacked."""
        with self.open(member) as stream:
            return stream.read(HEAD)

    @contextmanager
    def open(self, member: str) -> Iterator[BinaryIO]:
        """The member as a stream of unpacked bytes. Whatever is wrong with the file becomes a DataError."""
        with _errors(self.label(member)):
            if self.kind == "zip":
                with zipfile.ZipFile(self.path) as archive, archive.open(member) as stream:
                    yield cast(BinaryIO, stream)
                return
            with self.file(member).open("rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                if packed:
                    with gzip.GzipFile(fileobj=raw) as stream:
                        yield cast(BinaryIO, stream)
                else:
                    yield raw

    def file(self, member: str) -> Path:
        """The path of a member that is a file of its own (not inside a zip archive)."""
        return self.path if self.kind == "file" else self.path / member

    def blocks(self, member: str, size: int = BLOCK) -> Iterator[bytes]:
        """The content in blocks of about `size` bytes that end at a line's end; without a byte-order mark."""
        with self.open(member) as stream:
            rest = stream.read(3).removeprefix(b"\xef\xbb\xbf")
            while data := stream.read(size):
                cut = data.rfind(b"\n") + 1
                if not cut and len(rest) > 4 * size:
                    raise DataError(f"{self.label(member)} has no line ends; save it with one rating a line.")
                if cut:
                    yield self._text(member, rest + data[:cut])
                    rest = data[cut:]
                else:
                    rest += data
            if rest:
                yield self._text(member, rest)

    def _text(self, member: str, block: bytes) -> bytes:
        if b"\0" in block:
            raise DataError(
                f"{self.label(member)} holds NUL bytes, so it is not UTF-8 text; save it as UTF-8 CSV or Parquet."
            )
        return block

    def digest(self, members: tuple[str, ...]) -> str:
        """SHA-256 of the files that hold `members` (of a zip archive: the archive), as hex."""
        total = hashlib.sha256()
        for path in [self.file(m) for m in members] if self.kind == "folder" else [self.path]:
            with _errors(str(path)), path.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        return total.hexdigest()


def base_name(member: str) -> str:
    """The member's own name, without folders and without a final .gz."""
    return PurePosixPath(member).name.removesuffix(".gz")


@contextmanager
def _errors(label: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise DataError(
            f"{label} may not be read by this user; change its permissions (chmod +r) or copy it."
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{label} is damaged or cut short ({error}); copy or download it again.") from error
    except zipfile.BadZipFile as error:
        raise DataError(f"{label} is a damaged zip archive ({error}); copy or download it again.") from error
    except (RuntimeError, NotImplementedError) as error:  # zipfile: encrypted, or an unknown compression
        raise DataError(f"{label} cannot be unpacked ({error}); unpack it and give the file inside.") from error
    except OSError as error:
        raise DataError(f"{label} cannot be read: {error.strerror or error}.") from error

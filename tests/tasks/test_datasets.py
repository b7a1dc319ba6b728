"""Public sets by name: found, fetched, checked, or one clear error that says where to put the file."""

import hashlib
import socket
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from predilect.models.errors import DataError
from predilect.tasks import datasets
from predilect.tasks.datasets import PUBLIC_SETS, PublicSet, fetch, find, public_set
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.readers import reader_names

DAT = b"1::1193::5::978300760\n2::1193::3::978302109\n2::661::1::978302109\n"


@pytest.fixture
def site(tmp_path: Path) -> PublicSet:
    """MovieLens 1M as if published in a local folder."""
    published = tmp_path / "site" / "ml-1m.zip"
    published.parent.mkdir()
    with zipfile.ZipFile(published, "w") as archive:
        archive.writestr("ml-1m/README", "terms")
        archive.writestr("ml-1m/ratings.dat", DAT)
    checksum = f"md5:{hashlib.md5(published.read_bytes(), usedforsecurity=False).hexdigest()}"
    one = public_set("ml-1m")
    assert one is not None
    return replace(one, url=published.as_uri(), checksum=checksum)


def test_a_set_is_fetched_once_and_read_from_its_archive(
    tmp_path: Path, site: PublicSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "PUBLIC_SETS", (site,))
    data_dir = tmp_path / "data"
    manifest = ingest_ratings("ml-1m", data_dir, tmp_path / "out").manifest
    assert (manifest["name"], manifest["source"], manifest["rows"]) == ("ml-1m", "ml-1m.zip/ml-1m/ratings.dat", 3)
    assert [path.name for path in data_dir.iterdir()] == ["ml-1m.zip"]
    (tmp_path / "site" / "ml-1m.zip").unlink()
    assert ingest_ratings("movielens-1m", data_dir, tmp_path / "out").reused


def test_a_wrong_checksum_is_refused(tmp_path: Path, site: PublicSet) -> None:
    with pytest.raises(DataError, match=r"gave a file with the checksum md5:.*, not md5:0; try again"):
        fetch(replace(site, checksum="md5:0"), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_without_a_network_the_error_says_where_the_file_goes(tmp_path: Path, site: PublicSet) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/ml-1m.zip"
        with pytest.raises(
            DataError, match=r"cannot be reached .*put ml-1m.zip, or its content in a folder ml-1m, into"
        ):
            fetch(replace(site, url=url), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_connection_that_breaks_is_not_blamed_on_the_disk(tmp_path: Path, site: PublicSet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def promise_and_hang_up() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\nfew")

        thread = threading.Thread(target=promise_and_hang_up)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/ml-1m.zip"
        with pytest.raises(DataError, match=r"(IncompleteRead while reading|gave a file with the checksum)"):
            fetch(replace(site, url=url), tmp_path / "data")
        thread.join()
    assert not (tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_written(tmp_path: Path, site: PublicSet) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataError, match=r"data/ml-1m\.zip cannot be written"):
        fetch(site, tmp_path / "data")


@pytest.mark.parametrize("name", ["jester", "yahoo-music"])
def test_sets_that_must_be_asked_for(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"{name} is not in .* cannot be downloaded .*put .* into {tmp_path}"):
        ingest_ratings(name, tmp_path, tmp_path / "out")


def test_a_named_set_without_a_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="set data_dir or PREDILECT_DATA_DIR"):
        ingest_ratings("ml-25m", None, tmp_path / "out")
    (tmp_path / "ml-1m").mkdir()
    (tmp_path / "ml-1m" / "ratings.dat").write_bytes(DAT)
    assert ingest_ratings("ml-1m", None, tmp_path / "out").manifest["rows"] == 3


def test_where_sets_are_found(tmp_path: Path) -> None:
    for one in PUBLIC_SETS:
        for place in (*one.names, one.archive):
            data_dir = tmp_path / one.names[0] / f"as-{place}"
            (data_dir / place).mkdir(parents=True)
            assert find(one, data_dir) == data_dir / place
            assert find(one, tmp_path / "nowhere") is None


def test_every_set_has_a_reader_and_a_checksum_if_it_can_be_fetched() -> None:
    names = [name for one in PUBLIC_SETS for name in one.names]
    assert len(set(names)) == len(names)
    for one in PUBLIC_SETS:
        assert one.reader in reader_names()
        assert (one.url is None) == (one.checksum is None)
        if one.checksum:
            kind, _, digits = one.checksum.partition(":")
            assert len(digits) == 2 * hashlib.new(kind, usedforsecurity=False).digest_size

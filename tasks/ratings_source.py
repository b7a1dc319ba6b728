"""From the flow's parameters to ingestion: what can be checked before any work, and the ingest task."""

from pathlib import Path

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.datasets import public_set
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.ingest_large import ingest_large
from predilect.tasks.parameters import RatingsData, RatingsParameters
from predilect.tasks.readers import AUTO, READERS, reader_names
from predilect.tasks.settings import Settings
from predilect.tasks.side_tables import find


def check_source(parameters: RatingsData, settings: Settings) -> None:
    """Refuse, before any work starts, a source that is not there and a run name that is taken.

    Raises DataError or ParameterError, one sentence.
    """
    if parameters.name is not None and (settings.runs / parameters.name).exists():
        raise ParameterError(f"name = {parameters.name!r}: that run exists in {settings.runs}; choose another.")
    if not any(parameters.reader in (AUTO, reader.name, *reader.aliases) for reader in READERS):
        raise ParameterError(f"reader = {parameters.reader!r}: choose one of {', '.join(reader_names())}.")
    data_dir = _data_dir(parameters, settings)
    if data_dir is not None and not data_dir.is_dir() and parameters.data_dir is not None:
        raise ParameterError(f"data_dir = {str(data_dir)!r}: no such folder; create it or correct the path.")
    if isinstance(parameters, RatingsParameters):
        for table in filter(None, (parameters.users, parameters.items)):
            find(table, parameters)
    if Path(parameters.data).expanduser().exists():
        return
    if public_set(parameters.data) is not None and data_dir is None:
        raise ParameterError(
            f"data = {parameters.data!r} is a public set, and there is no data folder to look in or to download into; "
            "set --data-dir or PREDILECT_DATA_DIR."
        )
    if public_set(parameters.data) is None:
        raise DataError(
            f"data = {parameters.data!r}: no such file or folder, and no public set of that name; correct the path."
        )


def ingest_source(parameters: RatingsParameters) -> Path:
    """The folder of the canonical table; the same source with the same options is ingested once."""
    settings = Settings()
    options = _options(parameters, leave_to_contract=parameters.quarantine)
    return ingest_ratings(parameters.data, _data_dir(parameters, settings), settings.data, options).folder


def ingest_large_source(parameters: RatingsData) -> Path:
    """The same of ratings that do not fit in memory."""
    settings = Settings()
    options = _options(parameters)
    return ingest_large(parameters.data, _data_dir(parameters, settings), settings.data, options, parameters.threads)


def _options(parameters: RatingsData, leave_to_contract: bool = False) -> IngestOptions:
    return IngestOptions(
        reader=parameters.reader,
        columns=parameters.columns,
        duplicates=parameters.duplicates.value,
        scale_low=parameters.scale_low,
        scale_high=parameters.scale_high,
        scale_step=parameters.scale_step,
        leave_to_contract=leave_to_contract,
    )


def _data_dir(parameters: RatingsData, settings: Settings) -> Path | None:
    return Path(parameters.data_dir).expanduser() if parameters.data_dir else settings.data_dir

"""The file system behind a URI, as pyarrow has it, with limits on how long it may wait for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem, S3FileSystem

OBJECT_STORES = ("s3", "gcs", "abfs")
"""Stores where a file appears only once it is whole; elsewhere it is written beside and renamed."""
ANSWER_SECONDS = 5.0
"""How long making a connection may take, and how long a connection may be silent."""
ATTEMPTS = 2
"""How often a request is tried: pushes are repeated anyway, so a dead store is noticed after some 10 s."""
GCS_SECONDS = 30
"""How long a request to Google's store is tried again; its own default is a quarter of an hour."""


def connect(uri: str) -> tuple[FileSystem, str]:
    """The file system and the path in it. pyarrow's errors are raised as they are.

    S3 and Google's store get limits. Others (a shared disk, Azure, fsspec's) have none that could be set, so
    their callers must give up by themselves.
    """
    from pyarrow.fs import FileSystem, S3FileSystem

    if uri.startswith(("gs://", "gcs://")) and "retry_limit_seconds" not in uri:
        uri += f"{'&' if '?' in uri else '?'}retry_limit_seconds={GCS_SECONDS}"
    system, path = FileSystem.from_uri(uri)
    return (_impatient(system) if isinstance(system, S3FileSystem) else system), path.rstrip("/")


def _impatient(system: S3FileSystem) -> S3FileSystem:
    """The same with limits: no URI can say them, so it is built again from the options it is pickled by."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    _, (options,) = system.__reduce__()
    limits = {
        "connect_timeout": ANSWER_SECONDS,
        "request_timeout": ANSWER_SECONDS,
        "retry_strategy": AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    }
    return S3FileSystem(**{**options, **limits})

"""Ray's own opinion of a `ray up` file: its JSON schema, then the checks that `ray up` starts with."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters.deployment.findings import Finding, nearest

PROVIDERS = ["local", "aws", "gcp", "azure", "aliyun", "vsphere", "external"]


def schema_findings(document: dict[str, Any]) -> list[Finding]:
    """Keys that Ray does not know, values of the wrong type, keys it cannot do without."""
    import jsonschema
    import ray.autoscaler

    schema = json.loads(
        Path(ray.autoscaler.__file__).with_name("ray-schema.json").read_text(encoding="utf-8")
    )
    errors = jsonschema.Draft7Validator(schema).iter_errors(document)
    ordered = sorted(errors, key=lambda error: [str(part) for part in error.absolute_path])
    return [finding for error in ordered for finding in _findings(error)]


def _findings(error: Any) -> Iterator[Finding]:
    path = [str(part) for part in error.absolute_path]
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", ()))
        for name in error.instance:
            if name not in known:
                where = ".".join([*path, str(name)])
                yield Finding(where, "a key that Ray knows", str(name), nearest(name, known))
    elif error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        yield Finding(".".join([*path, missing]), "a value", "no such key")
    elif error.validator == "type":
        wanted = error.validator_value
        expected = wanted if isinstance(wanted, str) else " or ".join(wanted)
        yield Finding(".".join(path), f"a value of type {expected}", error.instance)
    else:
        yield Finding(".".join(path), f"what Ray's schema asks for ({error.message})", error.instance)


def prepared(document: dict[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """The document as `ray up` will use it, with Ray's defaults; on refusal as it is, with the reason."""
    # Ray has these checks nowhere else; tests hold what they say of our deployments
    from click import ClickException
    from ray.autoscaler._private.util import prepare_config, validate_config

    try:
        with _quiet():
            config = prepare_config(document)
            validate_config(config)
    except (ValueError, RuntimeError, AssertionError, ClickException) as error:
        return document, [Finding("", "a file that `ray up` accepts", str(error))]
    return config, []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ray prints its complaints and logs its warnings; here they are findings."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)

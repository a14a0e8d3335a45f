"""The standard streams and the arguments of the command line, without processes."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from claimdag_client.cli import streams


class Broken(io.StringIO):
    """A stream that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize(("error", "left"), [(OSError(28, "No space left"), False), (BrokenPipeError(32, "x"), True)])
def test_write_tells_why_and_whether_the_reader_left(
    error: OSError, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is an error, a reader that has enough is none."""
    monkeypatch.setattr(sys, "stdout", Broken(error))
    with pytest.raises(streams.OutputError, match=str(error.strerror)) as caught:
        streams.write("x")
    assert caught.value.reader_left is left


def test_write_to_a_closed_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has no stream where descriptor 1 was closed; writing nothing is no error."""
    monkeypatch.setattr(sys, "stdout", None)
    streams.flush()
    with pytest.raises(streams.OutputError, match="it is closed"):
        streams.write("x")


def test_read_text_reads_a_file_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both as UTF-8; what is not is named."""
    path = tmp_path / "é.txt"
    path.write_bytes("größe".encode())
    assert streams.read_text(str(path)) == "größe"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    with pytest.raises(streams.InputError, match="standard input is not UTF-8 text"):
        streams.read_text("-")


@pytest.mark.parametrize("path", ["", "missing", ".", "a\x00b"])
def test_read_text_names_what_cannot_be_read(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the operating system says of it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(streams.InputError, match=path.replace("\x00", ".") or ": "):
        streams.read_text(path)


def test_closed_and_waiting_standard_input_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is an end of the input."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(streams.InputError, match="standard input is closed"):
        streams.read_text("-")
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with open(reader, encoding="utf-8") as stdin, open(writer, "wb"):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(streams.InputError, match="non-blocking"):
            streams.read_text("-")


def test_pieces_say_how_much_of_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the progress of a long read."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    monkeypatch.setattr(streams, "PIECE_BYTES", 4)
    assert list(streams.pieces_of(str(path))) == [(b"xxxx", 0.4), (b"xxxx", 0.8), (b"xx", 1.0)]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_arguments_are_utf8_in_every_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the locale decoded as something else is decoded again; as a path it gets back its bytes."""
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: encoding)
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode(encoding, "surrogateescape"))
    monkeypatch.setattr(os, "fsdecode", lambda raw: raw.decode(encoding, "surrogateescape"))
    given = ["é".encode().decode(encoding, "surrogateescape"), b"caf\xe9".decode(encoding, "surrogateescape")]
    text, broken = streams.decoded(given)
    assert text == "é"
    assert broken == "caf\udce9"
    assert [streams.as_path(text), streams.as_path(broken)] == given

"""The two functions give what the json package gives, errors included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimdag_client._protocol.fast_json import dumps, loads

ROOT = Path(__file__).parents[3]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_values_go_there_and_back_as_the_package_writes_them(value: Any) -> None:
    """Compact, and not escaped to ASCII."""
    text = dumps(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert loads(text) == json.loads(text) == value


@pytest.mark.parametrize("text", ["", "{", "{} {}", "[1,]", "nul", '"\n"', "\ufeff{}", "HTTP/1.1 400"])
def test_what_is_not_one_json_value_is_an_error(text: str) -> None:
    """As in the package."""
    with pytest.raises(ValueError, match=r"."):
        json.loads(text)
    with pytest.raises(ValueError, match=r"."):
        loads(text)


@pytest.mark.parametrize("text", [' {"a":1}\r\n', "[]\n", "1e5", "-0.0"])
def test_blanks_around_a_value_are_passed_over(text: str) -> None:
    """As in the package."""
    assert loads(text) == json.loads(text)


def test_what_json_lacks_is_refused() -> None:
    """Infinity, an object of another type, a list that holds itself, and a nesting without end."""
    for value in (float("inf"), {"x": [float("nan")]}):
        with pytest.raises(ValueError, match="JSON compliant"):
            dumps(value)
    with pytest.raises(TypeError, match="Object of type object is not JSON serializable"):
        dumps({"x": object()})
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        dumps(circle)
    with pytest.raises(RecursionError):
        loads("[" * 100_000)


def test_a_ping_imports_neither_json_nor_re() -> None:
    """They were a quarter of its time."""
    code = (
        "import sys; from claimdag_client.cli.main import main; main(['--no-start', '--socket', '/no', 'ping'])"
        "; print([name for name in ('json', 're', 'argparse', 'enum') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout.strip() == "[]"

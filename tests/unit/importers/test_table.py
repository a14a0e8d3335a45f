"""Tables in CSV become nodes."""

from __future__ import annotations

import pytest

from claimdag_client.importers.table import TableImporter

from .drafts import faults, held, order, read, summaries, tree


def test_columns_are_the_fields_of_a_plan() -> None:
    """In any order; lists by blanks, commas or semicolons."""
    text = """\
ref,summary,kind,role,parent,after,after_any,needs,cost,priority,status,max_attempts
g,the goal,goal,,,,,,,,,
a,"first, of all",,architect,g,,,gpu=2 browser,30,5,,3
b,second,step,,g,a;c,,,,,blocked,
c,third,,,,,a,,,,,
d,done,,,,,,,,,done,
"""
    found = read(TableImporter(), text)
    assert faults(found) == []
    assert found.nodes() == [
        {"ref": "g", "summary": "g the goal", "kind": "goal"},
        {"ref": "a", "summary": "a first, of all", "role": "architect", "parent": "g", "cost": 30.0, "priority": 5,
         "needs": {"gpu": 2, "browser": 1}, "max_attempts": 3},
        {"ref": "b", "summary": "b second [held: blocked in the file]", "kind": "step", "status": "blocked",
         "parent": "g", "deps": [{"on": "a"}, {"on": "c"}]},
        {"ref": "c", "summary": "c third", "deps": [{"on": "a", "when": "after_any"}]},
    ]  # fmt: skip
    assert found.left_out() == {"done": 1}


@pytest.mark.parametrize("text", ["\ufeffid;title\r\n1;a\r\n", "id\ttitle\n1\ta\n", 'ID, Title\n1,"a"\n'])
def test_other_tables_are_read_too(text: str) -> None:
    """Of other programs: their delimiters, line ends, marks and names of columns."""
    assert summaries(read(TableImporter(), text)) == ["1 a"]


def test_a_table_needs_no_ref() -> None:
    """Then the summary is the name."""
    found = read(TableImporter(), "summary,depends_on\nx,\ny,x\n")
    assert summaries(found) == ["x", "y"]
    assert order(found) == {"y": ["x"]}


def test_faults_have_their_lines_and_columns() -> None:
    """All at once; a row over several lines counts as the last."""
    header = "ref,summary,cost,role,kind,needs,after,parent,colour"
    text = f'{header}\na,"x\ny",much,boss,hat,gpu=x,zz,none,red,more\n,,,\n b c,,\n'
    found = read(TableImporter(), text)
    assert [fault.split(":")[0] for fault in faults(found)] == [
        "line 1", "line 3", "line 3, column needs", "line 3, column kind", "line 3, column role", "line 3, column cost",
        "line 3", "line 3", "line 5",
    ]  # fmt: skip
    assert set(held(found)) == {"a"}
    assert tree(found) == {}
    assert faults(read(TableImporter(), "colour\nred\n"))[-1] == "line 1: there must be a column ref or summary"
    assert faults(read(TableImporter(), 'ref\na\n"b\n')) != []
    assert faults(read(TableImporter(), "x" * 200_000)) == ["line 1: there must be a column ref or summary"]
    assert faults(read(TableImporter(), f"ref\n{'x' * 200_000}\n")) != []

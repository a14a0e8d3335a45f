"""Check lists in Markdown become nodes, in each of the forms that people write them in."""

from __future__ import annotations

import pytest

from claimdag_client.importers.tasks import TasksImporter

from .drafts import faults, held, order, read, summaries, tree

SPEC_KIT = """\
# Tasks: Albums

## Phase 1: Setup
- [x] T001 Create the project
- [ ] T002 [P] Configure the linter
- [ ] T003 [P] Configure the formatter
- [ ] T004 Write the README

## Phase 2: Albums
- [ ] T005 [P] Model of an album
  - [ ] with a title
    - [x] in any language
- [ ] **T006** Sorting (depends on T002, T005)
"""


def test_a_list_of_a_spec_kit_keeps_its_phases_numbers_and_parallel_work() -> None:
    """Phases follow each other; a box without [P] waits for those before it in its phase."""
    found = read(TasksImporter(), SPEC_KIT)
    assert faults(found) == []
    assert summaries(found) == [
        "Phase 1: Setup", "T002 Configure the linter", "T003 Configure the formatter", "T004 Write the README",
        "Phase 2: Albums", "T005 Model of an album", "with a title", "T006 Sorting (depends on T002, T005)",
    ]  # fmt: skip
    assert order(found) == {
        "T004": ["T002", "T003"],
        "Phase 2: Albums": ["Phase 1: Setup"],
        "T006": ["T002", "T005"],
    }
    assert tree(found) == {
        "T002": "Phase 1: Setup", "T003": "Phase 1: Setup", "T004": "Phase 1: Setup", "T005": "Phase 2: Albums",
        "with a title": "T005", "T006": "Phase 2: Albums",
    }  # fmt: skip
    assert [node["ref"] for node in found.nodes() if node.get("kind") == "goal"] == [
        "Phase 1: Setup", "Phase 2: Albums", "T005",
    ]  # fmt: skip
    assert found.left_out() == {"done": 2}


def test_a_list_without_marks_for_parallel_work_has_no_order() -> None:
    """Nobody said that one thing comes after the other."""
    found = read(TasksImporter(), "- [ ] one\n- [ ] two\n* [ ] three\n+ [ ] four\n1. [ ] five\n2) [ ] six\n")
    assert order(found) == {}
    assert summaries(found) == ["one", "two", "three", "four", "five", "six"]


@pytest.mark.parametrize(
    ("text", "waits_on"),
    [
        ("T004 x (depends on T001)", ["T001"]),
        ("T004 x, blocked by T001 and T003", ["T001", "T003"]),
        ("T004 x Depends on: T001-T003", ["T001", "T002", "T003"]),
        ("T004 x\n  - depends on T002", ["T002"]),
        ("T004 x\n  Dependencies: T002, T001", ["T002", "T001"]),
        ("T004 x requires S3 and after GPT4", []),
    ],
)
def test_dependencies_are_read_in_the_words_that_people_use(text: str, waits_on: list[str]) -> None:
    """A word that only looks like a number names nothing here."""
    found = read(TasksImporter(), f"- [ ] T001 a\n- [ ] T002 b\n- [ ] T003 c\n- [ ] {text}\n")
    assert faults(found) == []
    assert order(found).get("T004", []) == waits_on


def test_numbers_with_points_are_ids_too() -> None:
    """As other kits number their lists."""
    found = read(TasksImporter(), "- [ ] 1. Set up\n  - [ ] 1.1 Install\n- [ ] 2. Run, after 1.1\n")
    assert summaries(found) == ["1 Set up", "1.1 Install", "2 Run, after 1.1"]
    assert tree(found) == {"1.1": "1"}
    assert order(found) == {"2": ["1.1"]}


def test_what_is_marked_otherwise_or_waits_on_the_unknown_is_held() -> None:
    """An unknown mark, a number that is in no box, a cycle."""
    text = "- [~] T001 a\n- [ ] T002 after T001\n- [ ] T003 after T009\n- [ ] T004 after T005\n- [ ] T005 after T004\n"
    found = read(TasksImporter(), text)
    assert held(found) == {
        "T001": "marked [~]",
        "T003": "depends on T009, which is not in the file",
        "T005": "depends on T004, in a cycle",
    }
    assert faults(found) == [
        "line 3: T003 depends on T009, which is not in the file",
        "line 5: T005 depends on T004, which closes a cycle: T005 -> T004 -> T005",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\n- [ ] x\n```\n- [ ] a\n",
        "~~~~md\n- [ ] x\n~~~\n```\n~~~~\n- [ ] a\n",
        "<!--\n- [ ] x\n-->\n<!-- - [ ] y -->\n- [ ] a\n",
        "text\n\n    - [ ] x\n\n- [ ] a\n",
        "> - [ ] x\n\n- [ ] a\n",
        "- [x] x\n- [ ] a\n",
        "\ufeff- [ ] a\n",
        "- [ ] a\r\n- [X] b\r\n",
        "- a\n  - [x] x\n- [ ] a",
        "-\t[ ]\ta\n",
    ],
)
def test_only_open_boxes_are_taken(text: str) -> None:
    """Not code, comments or quotations, whatever the line ends."""
    found = read(TasksImporter(), text)
    assert faults(found) == []
    assert summaries(found) == ["a"]


def test_nesting_goes_by_indentation_in_blanks_and_tabs() -> None:
    """Below a bullet that is no box, a box belongs to the box above that."""
    text = "- [ ] a\n\t- [ ] b\n\t\t- note\n\t\t\t- [ ] c\n- [ ] d\n   - [ ] e\n- [x] f\n  - [ ] g\n"
    found = read(TasksImporter(), text)
    assert tree(found) == {"b": "a", "c": "b", "e": "d"}
    assert summaries(found) == ["a", "b", "c", "d", "e", "g"]


def test_500_levels_and_a_title_of_64_kb_are_read() -> None:
    """The tree is as deep as the list, the summary as long as one may be."""
    text = "".join(f"{' ' * (2 * n)}- [ ] level {n}\n" for n in range(500)) + f"- [ ] {'é' * 32768}\n"
    found = read(TasksImporter(), text)
    assert faults(found) == []
    assert len(tree(found)) == 499
    assert len(summaries(found)[-1].encode()) <= 4096


def test_faults_have_their_lines() -> None:
    """Two boxes with one number, a box without text, brackets that are no box, bytes that are no text."""
    found = read(TasksImporter(), b"- [ ] T001 a\n- [ ] T001 b\n- [ ]\n- [] c\n- [ ] \xff\n")
    assert faults(found) == [
        "line 2: T001 is on line 1 already",
        "line 3: the box has no text",
        "line 4: [] is no box: an open one is written [ ]",
        "line 5: it is not UTF-8",
    ]
    assert held(found) == {"T001": "its id is in the file twice"}


def test_equal_texts_are_two_tasks() -> None:
    """Without a number, the count tells them apart inside the file."""
    assert summaries(read(TasksImporter(), "- [ ] write tests\n## b\n- [ ] write tests\n")) == [
        "write tests", "b", "write tests",
    ]  # fmt: skip

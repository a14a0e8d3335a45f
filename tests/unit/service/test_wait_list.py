"""The wait list: order, times, and the way out of it."""

from __future__ import annotations

from claimdagd import wire
from claimdagd.service.sessions import Session
from claimdagd.service.wait_list import EndWaiter, WaitingClaim, WaitList


def session(conn: int = 1) -> Session:
    return Session(conn, lambda _: None, lambda: None)


def put(wait_list: WaitList, whose: Session, deadline: float) -> WaitingClaim:
    claim = wire.ClaimNext(actor="a", wait=1.0)
    waiting = wait_list.make(whose, claim, claim, None, deadline)
    wait_list.put(waiting)
    whose.pending_replies += 1
    return waiting


def put_wait(wait_list: WaitList, whose: Session, ids: tuple[str, ...], deadline: float | None = None) -> EndWaiter:
    waiter = EndWaiter(whose, wire.Wait(ids=ids), deadline)
    wait_list.put_wait(waiter)
    whose.pending_replies += 1
    return waiter


def test_claims_are_in_the_order_in_which_they_came() -> None:
    """Also one that was served, which goes back to its original position."""
    wait_list = WaitList()
    first, second, third = (put(wait_list, session(), 10.0) for _ in range(3))
    wait_list.leave(second)
    assert wait_list.in_order() == [first, third]
    wait_list.put_back(second)
    assert wait_list.in_order() == [first, second, third]


def test_claim_that_was_never_listed_can_be_told() -> None:
    """It has its position, and is not put back by a rollback."""
    wait_list = WaitList()
    claim = wire.ClaimNext(actor="a")
    assert not wait_list.make(session(), claim, claim, None, 1.0).listed
    assert len(wait_list) == 0


def test_next_due_is_the_earliest_of_those_who_still_wait() -> None:
    """Claims and waits alike; one that left is forgotten."""
    wait_list = WaitList()
    assert wait_list.next_due() is None
    soon = put(wait_list, session(), 5.0)
    put_wait(wait_list, session(), ("n",), 7.0)
    put(wait_list, session(), 9.0)
    assert wait_list.next_due() == 5.0
    wait_list.leave(soon)
    assert wait_list.next_due() == 7.0
    assert len(wait_list.overdue_waits(8.0)) == 1
    assert wait_list.next_due() == 9.0


def test_overdue_ones_are_taken_out_by_kind() -> None:
    """Looking for one kind loses none of the other."""
    wait_list = WaitList()
    claim = put(wait_list, session(), 5.0)
    waiter = put_wait(wait_list, session(), ("n",), 5.0)
    assert wait_list.overdue_claims(4.9) == []
    assert wait_list.overdue_claims(5.0) == [claim]
    assert wait_list.overdue_claims(5.0) == []
    assert wait_list.overdue_waits(5.0) == [waiter]
    assert len(wait_list) == 0


def test_wait_without_a_deadline_is_never_due() -> None:
    """It ends with its nodes."""
    wait_list = WaitList()
    put_wait(wait_list, session(), ("n",))
    assert wait_list.next_due() is None
    assert wait_list.waits


def test_wait_ends_when_the_last_of_its_nodes_does() -> None:
    """Those that name a node are looked at, and only those whose nodes are all over leave."""
    wait_list = WaitList()
    both = put_wait(wait_list, session(), ("a", "b", "a"))
    one = put_wait(wait_list, session(), ("a",))
    over = {"a"}
    assert wait_list.ended(["a"], over.__contains__) == [one]
    assert wait_list.ended(["c"], over.__contains__) == []
    over.add("b")
    assert wait_list.ended(["b"], over.__contains__) == [both]
    assert not wait_list.waits


def test_session_that_is_gone_takes_all_of_its_own_with_it() -> None:
    """And nothing of the others."""
    wait_list = WaitList()
    gone, other = session(1), session(2)
    put(wait_list, gone, 5.0)
    put_wait(wait_list, gone, ("n",))
    stays = put(wait_list, other, 6.0)
    wait_list.forget(gone)
    assert wait_list.in_order() == [stays]
    assert not wait_list.waits
    assert wait_list.next_due() == 6.0


def test_clear_returns_everything_in_order() -> None:
    """Nothing is left behind."""
    wait_list = WaitList()
    claims = [put(wait_list, session(), 5.0) for _ in range(2)]
    waiter = put_wait(wait_list, session(), ("n",), 5.0)
    assert wait_list.clear() == (claims, [waiter])
    assert (len(wait_list), wait_list.next_due()) == (0, None)

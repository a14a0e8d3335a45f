"""A client that costs as little as a Python process can: run as a script, `python -I -S load.py ...`.

`load.py SOCKET KIND ACTOR COUNT DEPTH [BYTES_OUT]` connects, says `ready`, waits for a line on stdin, does COUNT rounds
and prints `seconds requests cpu_seconds`, the last being its own. With a last argument `-l` the round trips follow, in
microseconds, as one line.

KIND echo: DEPTH lines of BYTES_OUT bytes out, DEPTH lines back.
KIND claim: DEPTH claim_next, then DEPTH complete, for as many actors (two requests a node).
KIND next: DEPTH complete, each with `next` (one request a node).
KIND ping: DEPTH pings.

Must import nothing that takes long to load.
"""

import socket
import sys
import time


class Peer:
    """A connection, and the times of its round trips where they are wanted."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.laps: list[float] = []
        self.asked = 0
        self.began = self.ended = self.cpu = 0.0

    def go(self) -> None:
        """From here on it counts, once the parent says so."""
        print("ready", flush=True)
        sys.stdin.readline()
        self.asked = 0
        self.laps = []
        self.cpu = time.process_time()
        self.began = time.perf_counter()

    def stop(self) -> None:
        """Up to here."""
        if not self.ended:
            self.ended = time.perf_counter()
            self.cpu = time.process_time() - self.cpu
            self.counted = self.asked

    def ask(self, lines: list[bytes]) -> list[bytes]:
        """Send all the lines at once and read as many."""
        sock, wanted = self.sock, len(lines)
        data = lines[0] if wanted == 1 else b"".join(lines)
        began = time.perf_counter()
        sock.sendall(data)
        got = sock.recv(262144)
        while got.count(b"\n") < wanted:
            more = sock.recv(262144)
            if not more:
                raise EOFError(got)
            got += more
        self.laps.append(time.perf_counter() - began)
        self.asked += wanted
        return got.splitlines() if wanted > 1 else [got]


def claimed(answer: bytes, key: bytes) -> tuple[bytes, bytes]:
    """The id and the gen of a claim, which begins with `key`."""
    start = answer.find(key) + len(key)
    if start < len(key):
        raise ValueError(answer)
    node_id, rest = answer[start : start + 60].split(b'"', 1)
    return node_id, rest[len(b',"gen":') : rest.index(b",", 1)]


def claim(actor: bytes) -> bytes:
    return b'{"op":"claim_next","actor":"%b","rid":1}\n' % actor


def complete(held: tuple[bytes, bytes], actor: bytes, rest: bytes = b"") -> bytes:
    return b'{"op":"complete","id":"%b","gen":%b,"actor":"%b","rid":1%b}\n' % (*held, actor, rest)


def by_claims(peer: Peer, actors: list[bytes], count: int) -> None:
    firsts = [claim(actor) for actor in actors]
    for _ in range(count):
        held = [claimed(answer, b'"ok":{"id":"') for answer in peer.ask(firsts)]
        done = peer.ask([complete(h, a) for h, a in zip(held, actors, strict=True)])
        if b'"error"' in done[0][:20]:
            raise ValueError(done[0])


def by_next(peer: Peer, actors: list[bytes], count: int) -> None:
    held = [claimed(answer, b'"ok":{"id":"') for answer in peer.ask([claim(actor) for actor in actors])]
    peer.go()
    for _ in range(count):
        answers = peer.ask([complete(h, a, b',"next":{}') for h, a in zip(held, actors, strict=True)])
        held = [claimed(answer, b'"next":{"id":"') for answer in answers]
    peer.stop()
    peer.ask([complete(h, a) for h, a in zip(held, actors, strict=True)])


def main() -> None:
    path, kind, actor, count, depth = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    peer = Peer(path)
    actors = [f"{actor}.{n}".encode() for n in range(depth)]
    if kind == "next":
        by_next(peer, actors, count)
    else:
        peer.go()
        if kind == "claim":
            by_claims(peer, actors, count)
        else:
            line = b'{"op":"ping"}\n' if kind == "ping" else b"x" * (int(sys.argv[6]) - 1) + b"\n"
            for _ in range(count):
                peer.ask([line] * depth)
    peer.stop()
    print(peer.ended - peer.began, peer.counted, peer.cpu)
    if sys.argv[-1] == "-l":
        print(" ".join(f"{1e6 * lap:.1f}" for lap in peer.laps))
    sys.stdout.flush()


if __name__ == "__main__":
    main()

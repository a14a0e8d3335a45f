"""Where a graph lives: the choice of its directory and socket, and the making of both with explicit modes.

Daemon and clients call the same functions, so that they never disagree. Standard library only: the start of the
command line pays for this import. This module must not open the state files.
"""

from __future__ import annotations

import errno
import os
import stat

from claimdagd.descriptors import above_standard_streams
from claimdagd.limits import SOCKET_PATH_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "sock"
#: Below a state directory: the directories of its named graphs.
GRAPHS = "graphs"
GRAPH_NAME_MAX = 64
#: What binds a project, with all below it, to a graph.
PROJECT_FILE = ".claimdag.toml"
PROJECT_FILE_MAX_BYTES = 64 * 1024
_PROJECT_REMEDY = "repair or remove it, or say which graph is meant with --graph"
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


class UnsafePathError(Exception):
    """A path that may not be used: `path`, `reason` and, if there is one, `remedy`."""

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.path = path
        self.reason = reason
        self.remedy = remedy


class Location:
    """Where one graph lives: its directory and its socket, as absolute paths."""

    __slots__ = ("directory", "socket")

    def __init__(self, directory: str, socket: str | None = None) -> None:
        self.directory = directory
        self.socket = socket or os.path.join(directory, SOCKET)

    @property
    def graph(self) -> str | None:
        """The name of the graph; None for the default one, and for a directory of its own."""
        return graph_name(self.directory)


def locate(
    socket: str | None, directory: str | None, graph: str | None, environ: Mapping[str, str], uid: int
) -> Location:
    """Return where the graph lives that is meant: the first of these that is given decides (law 11.2).

    --socket, --dir, --graph, CLAIMDAG_SOCKET, CLAIMDAG_DIR, CLAIMDAG_GRAPH, the nearest `.claimdag.toml`, else the
    default graph. A socket says nothing of the directory, which is then chosen by the others. --dir and --graph
    together name a graph below that directory. Raises UnsafePathError for a bad name or project file, and OSError if a
    relative path leads nowhere.
    """
    if socket:
        return Location(_directory(directory, graph, environ, uid), os.path.abspath(socket))
    if directory or graph is not None:
        return Location(_directory(directory, graph, environ, uid))
    if named := environ.get("CLAIMDAG_SOCKET"):
        return Location(_directory(None, None, environ, uid), os.path.abspath(named))
    if not environ.get("CLAIMDAG_DIR"):
        graph = environ.get("CLAIMDAG_GRAPH") or project_graph(environ, uid)
    return Location(_directory(None, graph, environ, uid))


def _directory(directory: str | None, graph: str | None, environ: Mapping[str, str], uid: int) -> str:
    base = choose_directory(directory, environ, uid)
    if graph is None:
        return base
    check_graph_name(graph)
    return os.path.join(base, GRAPHS, graph)


def choose_directory(explicit: str | None, environ: Mapping[str, str], uid: int) -> str:
    """Return the absolute path of the state directory, of the default graph.

    It is `explicit`, else CLAIMDAG_DIR, else the first base that exists for this user. XDG variables that are not
    absolute are ignored, as their specification says. XDG_RUNTIME_DIR and the home directory count only while they
    exist; XDG_STATE_HOME is made if it is missing.
    """
    if named := explicit or environ.get("CLAIMDAG_DIR"):
        return os.path.abspath(named)
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and os.path.isdir(runtime):
        return os.path.join(runtime, "claimdag")
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return os.path.join(state, "claimdag")
    home = home_of(environ)
    if home.startswith("/") and os.path.isdir(home):
        return os.path.join(home, ".local", "state", "claimdag")
    return f"/tmp/claimdag-{uid}"


def home_of(environ: Mapping[str, str]) -> str:
    """Return the home directory, which may not exist."""
    return environ.get("HOME") or os.path.expanduser("~")


# --------------------------------------------------------------------------------------------------- graphs by name


def is_graph_name(name: str) -> bool:
    """Return whether a graph may have this name."""
    plain = name.replace("-", "a").replace("_", "a").replace(".", "a")
    return 0 < len(name) <= GRAPH_NAME_MAX and plain.isascii() and plain.isalnum() and name[0] != "."


def check_graph_name(name: str) -> None:
    """Refuse what is not the name of a graph."""
    if not is_graph_name(name):
        raise UnsafePathError(
            name or "''",
            "it is not the name of a graph",
            f"give 1 to {GRAPH_NAME_MAX} of A-Za-z0-9._- that do not begin with a dot",
        )


def graph_name(directory: str) -> str | None:
    """Return the name of the graph that lives in `directory`; None if it is not one of several below another."""
    above, name = os.path.split(directory)
    return name if os.path.basename(above) == GRAPHS else None


def project_graph(environ: Mapping[str, str], uid: int) -> str | None:
    """Return the graph that the nearest project file names, from the working directory upwards; None without one.

    The search ends at the home directory, at a mount and at the root (law 11.3). Raises UnsafePathError for a file that
    cannot be trusted or read: to pass over it would hand out another graph's work.
    """
    found = find_project_file(environ)
    return None if found is None else read_project_file(found, uid)


def find_project_file(environ: Mapping[str, str]) -> str | None:
    """Return the path of the nearest project file."""
    try:
        at = os.getcwd()
        device = os.stat(at).st_dev
    except OSError:
        return None  # the working directory is gone, and no project with it
    home = os.path.realpath(home_of(environ))
    while True:
        path = os.path.join(at, PROJECT_FILE)
        if os.path.lexists(path):
            return path
        above = os.path.dirname(at)
        if at in (home, above):
            return None
        try:
            if os.stat(above).st_dev != device:
                return None
        except OSError:
            return None
        at = above


def read_project_file(path: str, uid: int) -> str:
    """Return the name of the graph in a project file. Raises UnsafePathError if it cannot be trusted or read."""
    tree = os.path.realpath(os.path.dirname(path))
    target = os.path.realpath(path)
    if target != os.path.join(tree, PROJECT_FILE) and os.path.commonpath((tree, target)) != tree:
        raise UnsafePathError(path, f"it is a symbolic link out of its project, to {target}", _PROJECT_REMEDY)
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            status = os.fstat(descriptor)
            text = os.read(descriptor, PROJECT_FILE_MAX_BYTES) if stat.S_ISREG(status.st_mode) else None
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise UnsafePathError(path, f"it cannot be read: {exc.strerror}", _PROJECT_REMEDY) from None
    if text is None:
        raise UnsafePathError(path, "it is not a regular file", _PROJECT_REMEDY)
    if status.st_uid != uid:
        raise UnsafePathError(path, f"it belongs to user {status.st_uid} and not to {uid}", _PROJECT_REMEDY)
    name = _named_in(path, text)
    try:
        check_graph_name(name)
    except UnsafePathError as exc:
        raise UnsafePathError(path, f"its graph is {name!r}, which {exc.reason[3:]}", exc.remedy) from None
    return name


def _named_in(path: str, data: bytes) -> str:
    """Return what a project file gives as `graph`."""
    try:
        text = data.decode()
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        if len(lines) == 1:
            # The one line that `claimdag init` writes, read without a parser that costs as much as a command.
            key, _, value = lines[0].partition("=")
            value = value.strip()
            if key.strip() == "graph" and value[:1] == value[-1:] == '"' and value[1:-1].replace("-", "").isalnum():
                return value[1:-1]
        import tomllib

        named = tomllib.loads(text).get("graph")
    except ValueError as exc:  # UnicodeDecodeError and TOMLDecodeError among them
        raise UnsafePathError(path, f"it is not valid TOML: {exc}", _PROJECT_REMEDY) from None
    if not isinstance(named, str):
        raise UnsafePathError(path, "it names no graph", f'write graph = "NAME" into it; {_PROJECT_REMEDY}')
    return named


# --------------------------------------------------------------------------------------------------- sockets and modes


def check_socket_path(path: str) -> None:
    """Refuse by name a path that does not fit a Unix socket's address."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_MAX_BYTES:
        raise UnsafePathError(
            path,
            f"the socket's path is {size} bytes long and a Unix socket's may have at most {SOCKET_PATH_MAX_BYTES}",
            "name a shorter one with --socket or --dir",
        )


def make_directory(path: str) -> None:
    """Make the directory `path` and every missing one above it, each with mode 0700 under any umask.

    A directory that exists is left as it is. Raises OSError.
    """
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        return
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above == path or not above:
            raise
        make_directory(above)
        os.mkdir(path, DIRECTORY_MODE)
    if os.lstat(path).st_mode & 0o777 != DIRECTORY_MODE:
        os.chmod(path, DIRECTORY_MODE)  # the umask took the owner's own permissions away


def open_private(path: str, flags: int) -> int:
    """Open the regular file `path` with `flags`, or make it with mode 0600 under any umask.

    Symbolic links, pipes and all else that is not a regular file are refused. The descriptor is closed on exec and is
    never one of the standard streams'. Raises OSError.
    """
    # O_NONBLOCK: a pipe of that name must be refused, not waited for.
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        try:
            descriptor = above_standard_streams(os.open(path, flags))
            mode = 0
        except FileNotFoundError:
            try:
                descriptor = above_standard_streams(os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE_MODE))
                mode = FILE_MODE
            except FileExistsError:
                continue  # another process made it meanwhile
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
            if mode:
                os.fchmod(descriptor, mode)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

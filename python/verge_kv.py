"""The key-value store of a Verge node, for Python applications on the same host.

    from verge_kv import Lane

    with Lane("/run/verge/kv.sock", tuples=1) as lane:
        angle = lane.key("pendulum/angle")

        def control(job):
            state = job.read_f64(angle).number
            job.write_f64(angle, 0.5 * state + 1.0)

        lane.every(lane.period, control)

Times are nanoseconds since the Unix epoch on CLOCK_REALTIME. docs/kv-clients.md is the manual.

It needs libverge_kv.so (`cargo build --release -p verge-kv-client`), which is looked for at VERGE_KV_LIBRARY, beside this file, in
target/release of the source tree, and where the system keeps libraries. Nothing else is needed.
"""

import ctypes
import ctypes.util
import os
import pathlib
from typing import Callable, Dict, List, NamedTuple, Optional, Union

__all__ = ["Alarm", "Error", "Full", "Gone", "Job", "Lane", "Late", "Nothing", "Number", "Report", "Stale", "Unknown", "Value", "Vector", "latest_release", "now", "realtime"]


class Error(Exception):
    """Something was not done. The message says why and what to do."""


class Nothing(Error):
    """Nothing is visible under the key yet."""


class Stale(Error):
    """What is visible is older than asked for."""


class Full(Error):
    """As many tuples wait as this application may write for one job."""


class Late(Error):
    """The publishing time has passed, or no job is left before it."""


class Gone(Error):
    """The node has ended, or has not been heard of for two periods."""


class Unknown(Error):
    """The node does not know yet what was agreed on while it was away."""


class Alarm(Error):
    """The lane is fail-safe, and more nodes than may be faulty have another store: go to a safe state."""


_ERRORS = {-1: Nothing, -2: Stale, -3: Full, -4: Late, -6: Gone, -9: Unknown, -10: Alarm}
_INTERRUPTED = -7


class Value(NamedTuple):
    """A value and the instant from which on it is valid."""

    stamp: int
    value: bytes


class Number(NamedTuple):
    """A number and the instant from which on it is valid."""

    stamp: int
    number: Union[float, int]


class Vector(NamedTuple):
    """What a value was made of: who proposed what, as all correct nodes have agreed. Who is missing proposed nothing, or has lied."""

    stamp: int
    said: Dict[str, bytes]


class Report(NamedTuple):
    """How often a task ran, and how many releases it missed."""

    runs: int
    missed: int


def _load() -> ctypes.CDLL:
    here = pathlib.Path(__file__).resolve().parent
    name = "libverge_kv.so"
    places = [os.environ.get("VERGE_KV_LIBRARY"), here / name, here.parent / "target" / "release" / name]
    found = next((str(place) for place in places if place and os.path.exists(place)), None)
    found = found or ctypes.util.find_library("verge_kv")
    if not found:
        raise ImportError(
            f"{name} is not there: build it with `cargo build --release -p verge-kv-client`, and say where it is in VERGE_KV_LIBRARY"
        )
    library = ctypes.CDLL(found)
    handle, number, integer, u64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_uint64
    reference = ctypes.POINTER
    for name, result, arguments in [
        ("attach", handle, [ctypes.c_char_p, ctypes.c_uint16, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_uint32]),
        ("detach", None, [handle]),
        ("key", number, [handle, ctypes.c_char_p]),
        ("read", number, [handle, number, u64, ctypes.c_void_p, ctypes.c_size_t, reference(u64)]),
        ("read_f64", integer, [handle, number, u64, reference(ctypes.c_double), reference(u64)]),
        ("read_i64", integer, [handle, number, u64, reference(number), reference(u64)]),
        ("read_vector", number, [handle, number, u64, ctypes.c_void_p, ctypes.c_size_t, reference(u64)]),
        ("vector_bytes_max", ctypes.c_size_t, [handle]),
        ("said", integer, [ctypes.c_void_p, ctypes.c_size_t, integer, reference(ctypes.c_void_p), reference(ctypes.c_size_t)]),
        ("nodes", integer, [handle]),
        ("node_name", ctypes.c_char_p, [handle, integer]),
        ("fail_safe", None, [handle, integer]),
        ("alarm", integer, [handle]),
        ("write", integer, [handle, number, ctypes.c_char_p, ctypes.c_size_t, u64]),
        ("write_f64", integer, [handle, number, ctypes.c_double, u64]),
        ("write_i64", integer, [handle, number, number, u64]),
        ("alive", integer, [handle]),
        ("period", u64, [handle]),
        ("value_bytes_max", ctypes.c_size_t, [handle]),
        ("now", u64, []),
        ("release_after", u64, [u64, u64]),
        ("latest_release", u64, [u64, u64]),
        ("sleep_until", integer, [u64]),
        ("realtime", integer, [integer, integer]),
        ("last_error", ctypes.c_char_p, []),
    ]:
        function = getattr(library, "verge_kv_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def _check(code: int) -> int:
    if code < 0:
        raise _ERRORS.get(code, Error)(_library.verge_kv_last_error().decode())
    return code


def now() -> int:
    """The time on the synchronised clock."""
    return _library.verge_kv_now()


def latest_release(time: int, period: int) -> int:
    """The latest release at or before `time` of a task with this period."""
    return _library.verge_kv_latest_release(time, period)


def realtime(priority: int = 0, processor: int = -1) -> None:
    """Gives the calling thread a priority under SCHED_FIFO (0: none) and keeps it on a processor (-1: any)."""
    _check(_library.verge_kv_realtime(priority, processor))


class Lane:
    """An application's place at one lane of the node behind a socket."""

    def __init__(
        self, socket: str, lane: int = 0, tuples: int = 16, name: Optional[str] = None, wait_ms: int = 0, fail_safe: bool = False
    ):
        """`tuples` is how many tuples the application writes in one period of the lane, `name` what it is called in the node's
        status, and `wait_ms` how long to wait for a node that is not there yet. With `fail_safe` every read raises `Alarm` while the node's
        alarm is on, also what is fresh enough."""
        text = None if name is None else name.encode()
        self._handle = _library.verge_kv_attach(os.fsencode(socket), lane, tuples, text, wait_ms)
        if not self._handle:
            raise Error(_library.verge_kv_last_error().decode())
        self.period: int = _library.verge_kv_period(self._handle)
        """The lane's period."""
        self._size = _library.verge_kv_value_bytes_max(self._handle)
        self._vector_size = _library.verge_kv_vector_bytes_max(self._handle)
        nodes = range(_library.verge_kv_nodes(self._handle))
        self.nodes: List[str] = [_library.verge_kv_node_name(self._handle, node).decode() for node in nodes]
        """The names of all nodes, by number."""
        if fail_safe:
            _library.verge_kv_fail_safe(self._handle, 1)

    def close(self) -> None:
        """Gives the place back. A process that ends does so, too."""
        handle, self._handle = self._handle, None
        _library.verge_kv_detach(handle)

    def __enter__(self) -> "Lane":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _open(self) -> int:
        if not self._handle:
            raise Error("the lane is closed")
        return self._handle

    def key(self, name: str) -> int:
        """The number of a key. Look keys up once, before the first period."""
        return _check(_library.verge_kv_key(self._open(), name.encode()))

    def read(self, key: int, freshness: int = 0) -> Value:
        """The newest value whose stamp is at least `freshness` and has come."""
        buffer, stamp = ctypes.create_string_buffer(self._size), ctypes.c_uint64()
        size = _check(_library.verge_kv_read(self._open(), key, freshness, buffer, self._size, ctypes.byref(stamp)))
        return Value(stamp.value, buffer.raw[:size])

    def read_f64(self, key: int, freshness: int = 0) -> Number:
        """The same for a number."""
        number, stamp = ctypes.c_double(), ctypes.c_uint64()
        _check(_library.verge_kv_read_f64(self._open(), key, freshness, ctypes.byref(number), ctypes.byref(stamp)))
        return Number(stamp.value, number.value)

    def read_i64(self, key: int, freshness: int = 0) -> Number:
        """The same for a whole number."""
        number, stamp = ctypes.c_int64(), ctypes.c_uint64()
        _check(_library.verge_kv_read_i64(self._open(), key, freshness, ctypes.byref(number), ctypes.byref(stamp)))
        return Number(stamp.value, number.value)

    def read_vector(self, key: int, freshness: int = 0) -> Vector:
        """What the newest value was made of whose stamp is at least `freshness` and has come. The lane must keep that (`vectors`)."""
        buffer, stamp = ctypes.create_string_buffer(max(self._vector_size, 1)), ctypes.c_uint64()
        size = _check(_library.verge_kv_read_vector(self._open(), key, freshness, buffer, self._vector_size, ctypes.byref(stamp)))
        said = {}
        for node, name in enumerate(self.nodes):
            value, length = ctypes.c_void_p(), ctypes.c_size_t()
            if _check(_library.verge_kv_said(buffer, size, node, ctypes.byref(value), ctypes.byref(length))):
                said[name] = ctypes.string_at(value, length.value)
        return Vector(stamp.value, said)

    def alarm(self) -> bool:
        """Whether the node's alarm is on: more nodes than may be faulty have another store."""
        return _library.verge_kv_alarm(self._open()) == 1

    def write(self, key: int, value: bytes, publishing: int) -> None:
        """Proposes a value that is to be visible on all nodes from `publishing` on."""
        _check(_library.verge_kv_write(self._open(), key, value, len(value), publishing))

    def write_f64(self, key: int, number: float, publishing: int) -> None:
        """The same with a number, in the format that the key votes on."""
        _check(_library.verge_kv_write_f64(self._open(), key, number, publishing))

    def write_i64(self, key: int, number: int, publishing: int) -> None:
        """The same with a whole number."""
        _check(_library.verge_kv_write_i64(self._open(), key, number, publishing))

    def alive(self) -> bool:
        """Whether the node lives."""
        return _library.verge_kv_alive(self._open()) == 1

    def every(self, period: int, task: Callable[["Job"], Optional[bool]]) -> Report:
        """Runs a task once for each multiple of `period`, until it returns False. A release that it cannot run in before the next one
        is missed: it is counted and left out."""
        if period < self.period or period % self.period:
            raise ValueError(f"a period of {period} ns: it must be a whole multiple of the lane's, {self.period} ns")
        runs = missed = 0
        release = _library.verge_kv_release_after(now(), period)
        while True:
            # A signal ends the sleep, so that Python can handle it.
            while _library.verge_kv_sleep_until(release) == _INTERRUPTED:
                pass
            following = _library.verge_kv_release_after(now(), period)
            if following > release + period:
                missed += (following - release) // period
                release = following
                continue
            runs += 1
            if task(Job(self, release, period, Report(runs, missed))) is False:
                return Report(runs, missed)
            release += period


class Job:
    """One run of a task: what it reads and writes has the right times by itself."""

    def __init__(self, lane: Lane, release: int, period: int, report: Report):
        self.lane, self.release, self.period, self.report = lane, release, period, report

    @property
    def publishing(self) -> int:
        """From when on what this run writes is visible: the next release."""
        return self.release + self.period

    def freshness(self, writer_period: Optional[int] = None) -> int:
        """The oldest stamp that will do: one period back, or the latest release of a writer that is slower."""
        if writer_period is not None and writer_period > self.period:
            return latest_release(self.release, writer_period)
        return self.release - self.period

    def read(self, key: int, writer_period: Optional[int] = None) -> Value:
        """The value of this period, or of the last one."""
        return self.lane.read(key, self.freshness(writer_period))

    def read_f64(self, key: int, writer_period: Optional[int] = None) -> Number:
        """The same for a number."""
        return self.lane.read_f64(key, self.freshness(writer_period))

    def read_i64(self, key: int, writer_period: Optional[int] = None) -> Number:
        """The same for a whole number."""
        return self.lane.read_i64(key, self.freshness(writer_period))

    def write(self, key: int, value: bytes) -> None:
        """Writes a value that is visible from the next release on."""
        self.lane.write(key, value, self.publishing)

    def write_f64(self, key: int, number: float) -> None:
        """The same with a number."""
        self.lane.write_f64(key, number, self.publishing)

    def write_i64(self, key: int, number: int) -> None:
        """The same with a whole number."""
        self.lane.write_i64(key, number, self.publishing)

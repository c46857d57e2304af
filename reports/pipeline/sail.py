"""Sail, an engine for small inputs that has the interface of Spark, in this process.

A report on two logs waits for nothing but Spark: its JVM starts, and plans each table, for many
seconds. `Sail <https://github.com/lakehq/sail>`_ answers the protocol of Spark Connect, starts at
once, and is called by the same PySpark. So every table is written once, for both engines, and the
tests of the tables hold both to the same rows.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, cast

from streamproof.reports.pipeline.private_port import private_port
from streamproof.reports.pipeline.spark import (
    CONNECTED_SETTINGS,
    first_line,
    ignore_window_warnings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SailError", "has_sail", "sail_session"]

_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""The variable that tells PySpark's functions that they describe what a server will do."""


class SailError(Exception):
    """Sail cannot be used here, for the reason that is the message."""


def has_sail() -> bool:
    """Whether Sail and the client of Spark Connect are installed."""
    return all(find_spec(name) for name in ("pysail", "pyspark", "grpc"))


@contextmanager
def sail_session() -> Iterator[SparkSession]:
    """A session of PySpark with an engine that only this process can reach.

    The engine ends with the block. No other session may run in this process at the same time.

    Raises:
        SailError: this PySpark is too new for this Sail, this kernel cannot hide a port, or Sail
            fails at something that it is asked for in the block.
    """
    from pyspark.errors import PySparkException

    with ExitStack() as stack:
        try:
            session = _started(stack)
        except (ImportError, OSError, PySparkException) as error:
            raise SailError(first_line(error)) from error
        try:
            yield session
        except PySparkException as error:
            raise SailError(first_line(error)) from error


def _started(stack: ExitStack) -> SparkSession:
    """Start the engine and open a session; the stack will end both."""
    # Sail writes a line about each of its steps otherwise, when it is first imported.
    os.environ.setdefault("RUST_LOG", "error")
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    directory = stack.enter_context(TemporaryDirectory(prefix="streamproof-sail-"))
    way_in = Path(directory, "socket")
    server = SparkConnectServer("127.0.0.1", 0)
    server.start()
    stack.callback(server.stop)
    stack.enter_context(private_port(server.listening_address[1], way_in))
    os.environ[_CONNECT_MODE] = "1"
    stack.callback(os.environ.pop, _CONNECT_MODE)
    ignore_window_warnings()
    session = ConnectSession.builder.channelBuilder(_channel(way_in)).create()
    # Nothing is lost on the way to this process, so what fails once fails again, for minutes.
    session.client.set_retry_policies([])
    stack.callback(session.stop)
    for key, value in CONNECTED_SETTINGS.items():
        session.conf.set(key, value)
    if current_thread() is main_thread():
        # Ctrl-C would end Sail as well, while calls to it still go on.
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))
    return cast("SparkSession", session)


def _channel(way_in: Path) -> Any:
    """What connects PySpark to a server behind a Unix socket."""
    import grpc
    from pyspark.sql.connect.client import ChannelBuilder

    class Channel(ChannelBuilder):
        @property
        def host(self) -> str:
            return "localhost"

        # The name is PySpark's.
        def toChannel(self) -> grpc.Channel:  # noqa: N802
            return self._insecure_channel(f"unix:{way_in}")

    # The server refuses the path of a socket as the name of a host.
    return Channel([("grpc.default_authority", "localhost")])

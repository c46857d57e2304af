"""A host for any store in Python: it reads requests, calls the store, writes answers."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import convert

from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    UnsupportedOperationError,
)
from streamproof.stores.host.operations import OPERATIONS, Operation, argument
from streamproof.stores.host.protocol import PROTOCOL, kind_of

__all__ = ["StoreHost", "serve"]

Request = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Request).decode


class StoreHost:
    """One store behind the protocol.

    Args:
        make_store: makes the store, not open.
        capabilities: the capabilities that the host claims.
        name: the name of the host.
        version: the version of the host.
        names: whether ``make_store`` takes the name of the store as its argument ``name``.
        directory: the directory of the store, whatever ``open`` says.
    """

    def __init__(
        self,
        make_store: Callable[..., Any],
        capabilities: Capabilities,
        *,
        name: str,
        version: str,
        names: bool = False,
        directory: Path | None = None,
    ) -> None:
        self._make_store = make_store
        self._capabilities = capabilities
        self._name = name
        self._version = version
        self._names = names
        self._directory = directory
        self._context: StateStoreContext | None = None
        self._store: Any = None
        self._is_open = False
        self._handles: dict[int, Any] = {}
        self._iterators: dict[int, Any] = {}
        self._numbers = count(1)
        self._logged: list[tuple[bytes, bytes | None, int]] = []

    def answer(self, line: bytes) -> bytes:
        """The line that answers a line."""
        number: Any = None
        try:
            request = _decode(line)
            number = request.get("id")
            found = {"id": number, "ok": self._do(request)}
        except msgspec.MsgspecError as error:
            found = _failure(number, "invalid-argument", f"The line is not a request: {error}.")
        except Exception as error:  # noqa: BLE001 - a store raises what it likes
            found = _failure(number, kind_of(error), f"{error}" or type(error).__name__)
        if self._logged:
            found["logged"], self._logged = self._logged, []
        return _encode(found)

    def _do(self, request: Request) -> Any:
        op = request.get("op")
        if isinstance(op, str):
            method = getattr(self, f"_op_{op}", None)
            if method is not None:
                return method(request)
            operation = OPERATIONS[self._capabilities.kind].get(op)
            if operation is not None:
                return self._perform(op, operation, request)
        raise UnsupportedOperationError(
            f"There is no operation {op!r} for a {self._capabilities.kind} store; "
            "docs/store-host.md lists them all."
        )

    def _perform(self, op: str, operation: Operation, request: Request) -> Any:
        """Call the method of the same name."""
        writes = operation.does == "write"
        target = self._writing(request) if writes else self._target(request)
        arguments = [argument(field, request[field]) for field in operation.fields]
        answer = getattr(target, op)(*arguments)
        return self._opened_scan(answer) if operation.does == "scan" else answer

    def _target(self, request: Request) -> Any:
        """The store, transaction or view that the request is for."""
        if self._store is None:
            raise InvalidStateStoreError("The store is not open; send open first.")
        on = request.get("on")
        if on is None:
            return self._store
        if on not in self._handles:
            raise InvalidStateStoreError(
                f"No transaction or view has the number {on}; create one first."
            )
        return self._handles[on]

    def _writing(self, request: Request) -> Any:
        """The same, with the record that is being processed."""
        target = self._target(request)
        context = self._opened()
        record = request.get("record")
        if record is None:
            context.record_metadata, context.record_timestamp = None, -1
        else:
            *metadata, context.record_timestamp = record
            context.record_metadata = RecordMetadata(*metadata)
        return target

    def _opened(self) -> StateStoreContext:
        if self._context is None:
            raise InvalidStateStoreError("The store is not open; send open first.")
        return self._context

    # The operations.

    def _op_hello(self, request: Request) -> Any:
        needed = 1 if self._capabilities.kind == "key-value" else 2
        if request["protocol"] < needed:
            raise UnsupportedOperationError(
                f"The client speaks version {request['protocol']} of the protocol, but this host "
                f"needs version {needed}. Use a newer client."
            )
        claimed = asdict(self._capabilities)
        defaults = asdict(Capabilities())
        named = {key: value for key, value in claimed.items() if value != defaults[key]}
        return {
            "protocol": min(request["protocol"], PROTOCOL),
            "name": self._name,
            "version": self._version,
            "reopens": self._directory is None,
            "capabilities": named,
            **({"names": True} if self._names else {}),
        }

    def _op_open(self, request: Request) -> None:
        if self._is_open:
            raise InvalidStateStoreError("The store is already open; send close first.")
        exactly_once = request.get("guarantee") == "exactly-once"
        # Numbers may come as text, as in a properties file.
        config = {
            key: int(value) if value.lstrip("-").isdigit() else value
            for key, value in request.get("config", {}).items()
        }
        guarantee = EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE
        context = StateStoreContext(
            state_dir=self._directory or Path(request["directory"]),
            task_id=request.get("task", "0_0"),
            app_configs={**config, PROCESSING_GUARANTEE_CONFIG: guarantee},
            changelog=self._log,
        )
        name = {"name": request["name"]} if self._names and "name" in request else {}
        store = self._make_store(**name)
        store.init(context, store)
        self._store, self._context, self._is_open = store, context, True

    def _log(self, _: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Keep what the store sends to its changelog for the next answer."""
        self._logged.append((key, value, timestamp))

    def _op_close(self, request: Request) -> None:
        self._target(request).close()
        # The closed store answers until another one is open.
        if request.get("on") is None:
            self._is_open = False
            # What the store held in cycles is released before anybody looks.
            gc.collect()

    def _op_is_open(self, request: Request) -> bool:
        return bool(self._target(request).is_open)

    def _op_restore(self, request: Request) -> None:
        self._target(request)
        # Version 1 has no headers. A store in Python is told neither them nor the partition.
        batch = [
            ChangelogRecord(convert(key, bytes), convert(value, bytes | None), offset, timestamp)
            for key, value, offset, timestamp, *_ in request["entries"]
        ]
        callbacks = list(self._opened().restore_callbacks.values())
        if callbacks:
            callbacks[-1](batch)
        else:
            for record in batch:
                self._store.put(record.key, record.value)

    def _op_flush(self, request: Request) -> None:
        self._target(request).flush()

    def _op_commit(self, request: Request) -> None:
        offsets = {
            TopicPartition(topic, number): offset for topic, number, offset in request["offsets"]
        }
        self._target(request).commit(offsets)

    def _op_committed_offset(self, request: Request) -> Any:
        partition = TopicPartition(request["topic"], request["partition"])
        return self._target(request).committed_offset(partition)

    def _op_position(self, request: Request) -> Any:
        offsets = self._target(request).position.as_dict()
        return [[topic, number, offset] for (topic, number), offset in sorted(offsets.items())]

    def _opened_scan(self, iterator: Any) -> int:
        number = next(self._numbers)
        self._iterators[number] = iterator
        return number

    def _op_next(self, request: Request) -> Any:
        limit = request["limit"]
        if not isinstance(limit, int) or limit < 1:
            raise InvalidArgumentError(
                f"The limit is {limit!r}; give a whole number of at least 1."
            )
        rows = list(islice(self._iterator(request), limit))
        return {"rows": rows, "done": len(rows) < limit}

    def _op_peek_next_key(self, request: Request) -> Any:
        try:
            return self._iterator(request).peek_next_key()
        except StopIteration:
            return None

    def _op_close_iterator(self, request: Request) -> None:
        iterator = self._iterator(request)
        del self._iterators[request["iterator"]]
        if hasattr(iterator, "close"):
            iterator.close()

    def _iterator(self, request: Request) -> Any:
        number = request["iterator"]
        if number not in self._iterators:
            raise InvalidStateStoreError(
                f"No open iterator has the number {number!r}; open one first."
            )
        return self._iterators[number]

    def _op_dropped_records(self, request: Request) -> Any:
        return self._target(request).dropped_records

    def _op_approximate_num_uncommitted_entries(self, request: Request) -> Any:
        return self._target(request).approximate_num_uncommitted_entries()

    def _op_approximate_num_uncommitted_bytes(self, request: Request) -> Any:
        return self._target(request).approximate_num_uncommitted_bytes()

    def _op_new_transaction(self, request: Request) -> int:
        return self._handle(self._target(request).new_transaction())

    def _op_read_only(self, request: Request) -> int:
        level = IsolationLevel[request["isolation"]]
        return self._handle(self._target(request).read_only(level))

    def _handle(self, target: Any) -> int:
        number = next(self._numbers)
        self._handles[number] = target
        return number


def _failure(number: Any, kind: str, message: str) -> dict[str, Any]:
    return {"id": number, "error": {"kind": kind, "message": message}}


def serve(host: StoreHost) -> None:
    """Answer requests until the standard input ends, and leave without any clean-up."""
    requests, answers = _take_over_streams()
    for line in requests:
        answer = host.answer(line) + b"\n"
        while answer:
            answer = answer[os.write(answers, answer) :]
    os._exit(0)


def _take_over_streams() -> tuple[BinaryIO, int]:
    """Keep the standard output for the protocol; prints of the store go to the standard error."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    sys.stdout.flush()
    return requests, answers

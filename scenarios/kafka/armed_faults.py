"""What the proxy before a broker is told: faults of single messages, and where it is reached."""

from __future__ import annotations

import msgspec

__all__ = ["DISTURBED", "EMPTY_FETCH", "NETWORK", "ArmedFault"]

NETWORK = "network"
"""The name by which the proxy takes commands, and that of its recording."""

DISTURBED = "disturbed"
"""The file that is there as long as a client has not noticed a loss, or a request is held up."""

EMPTY_FETCH = "broker.empty_fetch"
"""The fault of an answer that lacks the records of a log."""


class ArmedFault(msgspec.Struct):
    """A fault that waits for its requests.

    Attributes:
        number: the number of the action; the file ``fired-N`` tells that it has happened.
        site: ``network.request_lost``, ``network.reply_lost``, ``network.late``, ``network.slow``,
            ``broker.marker_delayed`` or ``broker.empty_fetch``.
        whom: the instance, or the log as ``logs_in`` names it; empty for any.
        what: the request; empty for any.
        skip: how many passes go by before that.
        left: how many passes in a row fail.
        ms: how long a request is held up, in milliseconds.
        amount: ``NO_ANSWER``, if the end of a log is not known either.
    """

    number: int
    site: str
    whom: str = ""
    what: str = ""
    skip: int = 0
    left: int = 1
    ms: int = 0
    amount: int = 0

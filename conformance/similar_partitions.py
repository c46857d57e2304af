"""Partitions that a store may take for each other, and offsets that need more than four bytes.

Topics and numbers run together, topics are prefixes of each other or differ in one separator, and
numbers differ in a byte that a shorter field has not.
"""

from __future__ import annotations

from streamproof.stores.api import TopicPartition

__all__ = ["LARGE_OFFSET", "LONGEST_TOPIC", "SIMILAR", "TWINS"]

LONGEST_TOPIC = 249
"""The length of the longest name that Kafka allows for a topic."""

LARGE_OFFSET = 2**53 + 1
"""The first number that a floating-point number, as in JSON, does not hold exactly."""

TWINS: tuple[tuple[TopicPartition, TopicPartition], ...] = (
    (TopicPartition("t", 12), TopicPartition("t-1", 2)),
    (TopicPartition("t", 13), TopicPartition("t1", 3)),
    (TopicPartition("a", 1), TopicPartition("a.b", 1)),
    (TopicPartition("a.c", 1), TopicPartition("a_c", 1)),
    (TopicPartition("store-changelog", 1), TopicPartition("store-changelog", 11)),
    (TopicPartition("store-changelog", 4), TopicPartition("STORE-changelog", 4)),
    (TopicPartition("status", 0), TopicPartition("position", 0)),
    (TopicPartition("n", 3), TopicPartition("n", 256 + 3)),
    (TopicPartition("m", 5), TopicPartition("m", 2**16 + 5)),
    (TopicPartition("m", 2**24 - 1), TopicPartition("m", 2**31 - 1)),
    (TopicPartition("l" * LONGEST_TOPIC, 1), TopicPartition("l" * (LONGEST_TOPIC - 1), 1)),
    (
        TopicPartition("e" * (LONGEST_TOPIC - 1) + "a", 1),
        TopicPartition("e" * (LONGEST_TOPIC - 1) + "b", 1),
    ),
)
"""Pairs, in each of which a store may take one partition for the other."""

SIMILAR = tuple(partition for pair in TWINS for partition in pair)
"""All of these partitions."""

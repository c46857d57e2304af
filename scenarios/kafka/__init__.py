"""Worlds of real processes: brokers and applications of Kafka on this machine."""

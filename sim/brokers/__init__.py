"""The brokers: partition logs, transactions, and consumer groups."""

"""Stores in another process, in any language: docs/store-host.md has the protocol."""

"""Crash scenarios: played, searched for, made small, and shown in words and pictures."""

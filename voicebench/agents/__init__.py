"""Agents to test against: one reference agent without I/O, and its servers."""

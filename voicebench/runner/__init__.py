"""One call: the conversation without I/O, the real-time pacer, and the record."""

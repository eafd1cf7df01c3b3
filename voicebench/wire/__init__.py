"""What is on the wire: codecs without I/O, shared by adapters and agents."""

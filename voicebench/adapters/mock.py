"""The reference agent in this process, without a network (VB31)."""

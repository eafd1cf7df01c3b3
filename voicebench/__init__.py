"""Load testing and evaluation of real-time voice agents."""

from voicebench.version import __version__

__all__ = ["__version__"]

"""Samples: PCM, files, resampling, and synthetic signals."""

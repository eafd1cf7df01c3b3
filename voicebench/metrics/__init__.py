"""What a call measured: one module per family of metrics."""

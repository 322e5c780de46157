"""The one place that holds ORE's version."""

__version__ = "0.12.0"

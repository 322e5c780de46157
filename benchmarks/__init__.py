"""What ORE costs, beside the least that does the same and beside a peer: ``python -m benchmarks``."""

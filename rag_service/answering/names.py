"""Names that the pipeline and the command line agree on."""

DEFAULT_COLLECTION = "default"
"""Collection of queries and ingests that name none."""
NO_COLLECTION = (
    f"No collection was searched: none was named and there is none called {DEFAULT_COLLECTION!r}. So the answer does "
    "not rest on your documents."
)
"""Note of an answer that went without passages for want of a collection."""

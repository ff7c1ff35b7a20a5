"""Names that the pipeline and the command line agree on."""

DEFAULT_COLLECTION = "default"
"""Collection of queries and ingests that name none."""

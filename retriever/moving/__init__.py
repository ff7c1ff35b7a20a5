"""Whole collections: copied to another store or name, and reindexed while the old index serves."""

"""What the text of a passage is made of: sentences, rows of tables and ranges of numbers."""

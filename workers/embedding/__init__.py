"""Workers embed texts for processes without torch."""

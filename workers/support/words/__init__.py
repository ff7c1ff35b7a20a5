"""Words that say no, numbers, units, states and other forms of words: what evidence knows of languages."""

"""How far the passages state an answer: the evidence in their words, and the calibration that makes it a chance."""

"""From storage to ready: stages, their times, which of them is the narrow one, and what would help."""

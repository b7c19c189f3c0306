"""Answers: one function and one frozen answer type per question. What Python, the command line and JSON all show."""

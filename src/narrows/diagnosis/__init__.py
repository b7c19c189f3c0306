"""Prediction × Observation → cause, residuals, mend: what went wrong in a start, by figures."""

from narrows.diagnosis.causes import Cause, diagnose
from narrows.diagnosis.deployed import Deployed, deployed
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.notes import Note, command_notes, notes_of
from narrows.diagnosis.situation import Situation
from narrows.diagnosis.terms import Comparison, comparisons
from narrows.diagnosis.timeline import TimeLedger, time_ledger

__all__ = [
    "Cause",
    "Comparison",
    "Deployed",
    "Mend",
    "Note",
    "Situation",
    "TimeLedger",
    "command_notes",
    "comparisons",
    "deployed",
    "diagnose",
    "notes_of",
    "time_ledger",
]

"""Answers for people: tables, charts, languages. No arithmetic of the domain happens here."""

"""Readers of what weight files say of themselves: their headers, never their weights."""

"""How right narrows is: predictions held against public measurements, never against what they were fitted on."""

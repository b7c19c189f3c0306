"""Everything impure: probes that time this machine and return plain values with their spread."""

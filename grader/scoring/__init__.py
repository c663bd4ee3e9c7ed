"""From evidence to points; nothing is run here."""

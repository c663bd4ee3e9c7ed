"""From evidence to points, without running anything."""

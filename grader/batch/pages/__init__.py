"""Pages about a class in HTML, and what is computed for them."""

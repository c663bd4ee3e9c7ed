"""What is known of a class, in a database."""

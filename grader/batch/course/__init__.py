"""A class: its course, roster, people, hand-ins, and the decisions about them."""

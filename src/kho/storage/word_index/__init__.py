"""The `Words` port on both databases, and the query planning that they share."""

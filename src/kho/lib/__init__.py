"""Small general-purpose modules that do not depend on the rest of Kho."""

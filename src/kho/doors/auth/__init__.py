"""Authentication: credential to principal, and ending streams whose credential is revoked."""

"""Who a caller is, from the credential, and for how long it holds."""

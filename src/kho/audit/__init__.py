"""The audit trail of all slices: a read-only slice that shows the rows that the others wrote."""

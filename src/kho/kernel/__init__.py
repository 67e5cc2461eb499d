"""Kernel: the types that every slice and every door share. It imports no other part of Kho except `lib`."""

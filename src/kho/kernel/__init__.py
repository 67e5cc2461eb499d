"""The kernel: what every slice and every door agrees on. It imports nothing of ours."""

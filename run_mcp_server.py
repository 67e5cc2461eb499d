"""Starts the hub under the name that contract 002 gives it: python run_mcp_server.py [options of 'kho serve']."""

import sys

from kho.__main__ import main

if __name__ == "__main__":
    sys.argv[1:1] = ["serve"]
    main()

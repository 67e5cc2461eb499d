"""Server-side tools: web search and web pages (contract 002). Each tool is one file; `capability.py` lists them."""

"""Server-side tools: web search and web pages (contract 002). A tool is one file; `capability.py` names them."""

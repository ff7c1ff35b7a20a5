"""An MCP server over a running stack: tools by which a language model elsewhere searches, asks and reads documents.

Talks to the stack through `rag_service.client` alone, so it needs no model, no Redis and no data folder of its own. One
file a tool; `server` joins them, `stdio` and `http` carry the protocol.
"""

from rag_service.mcp.place import Place
from rag_service.mcp.server import create_server

__all__ = ["Place", "create_server"]

"""The graph of notes, for server processes."""

from tests.server.notes_graph import notes_graph

graph = notes_graph()

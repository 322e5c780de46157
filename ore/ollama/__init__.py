"""The edge to an Ollama server: its address, wire and failures. Knows nothing about ORE's turns."""

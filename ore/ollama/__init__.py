"""The edge to an Ollama server: its address, its wire, its failures. Knows nothing about ORE's turns."""

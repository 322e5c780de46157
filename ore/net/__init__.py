"""What every server is asked with: its address, the bytes, and how a connection fails. Knows no protocol."""

"""What every server is asked with: address, bytes, how a connection fails. Knows no protocol."""

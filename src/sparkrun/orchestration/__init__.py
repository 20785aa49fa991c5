"""Everything that touches a host."""

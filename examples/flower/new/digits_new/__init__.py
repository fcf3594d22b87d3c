"""An app without code of its own."""

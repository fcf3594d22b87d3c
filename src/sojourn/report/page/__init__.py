"""Pages: one self-contained HTML file each, which explains itself without a network."""

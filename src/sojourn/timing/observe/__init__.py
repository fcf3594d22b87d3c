"""What a trace shows, beside what exact theory promises for it."""

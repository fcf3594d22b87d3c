"""What a task is worth: data, models, algorithms, training over a Trace."""

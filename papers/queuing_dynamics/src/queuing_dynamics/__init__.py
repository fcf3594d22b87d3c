"""Every figure and number of the paper that queues and bounds decide, made again and set beside what is printed."""

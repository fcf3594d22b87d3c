"""CIFAR-10: the paper's table of three methods, which leaves open what was run.

readings   what it may have meant
search     every reading, with few seeds, judged on held-out examples
"""

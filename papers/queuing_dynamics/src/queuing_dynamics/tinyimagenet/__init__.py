"""TinyImageNet: five methods with ResNet18 over the same simulated time; the paper has a figure and no numbers.

methods     what is compared
stages      what is trained, and in which order
experiment  tables, picture and claims from that
"""

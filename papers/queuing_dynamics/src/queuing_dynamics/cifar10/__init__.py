"""CIFAR-10: the paper's table of three methods, which leaves open what was run.

readings    what it may have meant                    size        how large it is
search      every reading, with few seeds             settled     the nearest reading, at finer rates
favourable  each method tuned for a time              finals      runs over fresh seeds
stages      what is trained, in which order           compared    levels and paired differences
claims      what is said of them                      experiment  files, pictures and claims together
"""

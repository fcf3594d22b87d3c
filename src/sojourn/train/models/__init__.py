"""Models by name: logistic regression, a perceptron, a small convolutional network, the quadratic; or your own."""

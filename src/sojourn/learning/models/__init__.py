"""Models by name: logistic regression, a perceptron, convolutional, residual networks, the quadratic; or your own."""

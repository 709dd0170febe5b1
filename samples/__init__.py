"""Sample models of our own, trained by `python -m samples.train_digits` on scikit-learn's digits."""

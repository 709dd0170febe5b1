"""The portal's own pages: usage by what it was for, spend caps, and what a month consists of."""

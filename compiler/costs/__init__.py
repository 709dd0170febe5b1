"""What an operation takes of each kind of unit, before it is cut into tiles: what passes, tiling and bounds all ask.

``contraction``: a contraction as a batch of matrix products, and how products share a pass of the planes. ``cycles``:
arithmetic stages, which are exact, and estimates of cycles, which bounds must not use.
"""

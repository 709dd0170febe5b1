"""Networks that are exported into the corpus, by kind. Every module here needs torch, which only `requirements.txt` beside
this folder installs: nothing but the export imports them.

Each function that `models.toml` names returns a network and the inputs that it is exported with; their shapes are those of the
model, their values are not written into it.
"""

"""The corpus: models of many kinds, split by their names into a part to work on and a part only to report.

`models.toml` lists them, `split.py` says to which part one belongs, `nets` builds those that are exported,
`python -m benchmarks.corpus make` fetches and exports, `python -m benchmarks.corpus run` measures nearness to the bounds.
"""

"""The laboratory: training, other language models, studies, evaluations and benchmarks.

The commands train, eval, bench, study and ``trace --stream`` use it. Nothing that reads documents
or answers questions imports it.
"""

"""How fast this package is, against the official SDK and against what else there is.

A *group* is a module named in ``suite.GROUPS``: its ``documents()`` are pieces of work, each with
its contenders and a check of every contender's output, and its ``BUDGETS`` are the ratios that the
package is held to. ``python -m benches.report`` measures the contenders of a document in turn, so
that the ratios hold on a noisy machine, and prints the table; ``pytest benches`` measures each row
by itself with pytest-benchmark.
"""

"""What came back: the store of Parquet parts, the Pareto front, and the report.

``store/`` keeps rows as they come and finds answers again, ``front/`` says which designs are on the front and
how certain that is, and ``report/`` draws one HTML page. This package imports none of the other four.

"""

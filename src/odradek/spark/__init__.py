"""Spark data sources for topics and Delta tables, in PySpark alone, without a jar.

``format("odradek")`` reads and writes topics, ``format("odradek_delta")`` tables. Spark discovers both where
the package is installed (``pyspark_odradek``, ``pyspark_odradek_delta``). ``enable(spark)`` registers them
where it cannot, and sets the configuration that exactly-once writes require.
"""

from odradek.spark.registration import enable as enable

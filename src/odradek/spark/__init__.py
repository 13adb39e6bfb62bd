"""Topics and Delta tables as data sources of Spark, through PySpark alone: no jar.

``format("odradek")`` reads and writes topics, ``format("odradek_delta")`` tables. Spark finds both by itself
where the package is installed (``pyspark_odradek``, ``pyspark_odradek_delta``). ``enable(spark)`` registers
them where it cannot, and sets what exactly once needs.
"""

from odradek.spark.registration import enable as enable

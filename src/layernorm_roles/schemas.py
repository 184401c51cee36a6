"""The Parquet tables of a reproduction: which columns each has, what they mean, and in which units.

schemas.csv has a line for each column of a table. A type that ends in a question mark allows nulls. A line without a
type stands for all columns of the block that it names; several tables share a block, whose name begins with "of".

Each table is tidy: one row is one observation. The meaning and the unit of a column are in the metadata of its field,
so that every file explains itself: `pq.read_schema(path).field("step").metadata`.
"""

ANY, NORM, OWN = "any", "norm", "own"
"""Values of the column `queries`, each a set of queries that contains the next set: all vectors; the queries that a
head can compute from any output of the norm before it; the queries that the head computes on the context itself."""
AS_USED, WITHOUT_NORM = "as used", "without norm"
"""Values of the column `normalised`: the keys of the heads, or those made from the stream before the norm."""

-- One row in, at most one row out. `record` has key, topic, partition, offset and timestamp of the record.
SELECT
  id,
  upper(place) AS place,
  at,
  round(amount, 2) AS amount,
  record.partition AS from_partition,
  record.offset AS from_offset
FROM source
WHERE amount >= 100

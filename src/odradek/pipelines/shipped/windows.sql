-- A record without a time belongs to no window, and is left out before windows are counted.
SELECT
  window.start AS window_start,
  window.end AS window_end,
  place,
  count(*) AS row_count,
  sum(amount) AS amount
FROM source
WHERE at IS NOT NULL
GROUP BY window(at, '10 minutes'), place

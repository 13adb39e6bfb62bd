-- A record without a time is in no window, and is filtered out.
SELECT
  window.start AS window_start,
  window.end AS window_end,
  place,
  count(*) AS row_count,
  sum(amount) AS amount
FROM source
WHERE at IS NOT NULL
GROUP BY window(at, '10 minutes'), place

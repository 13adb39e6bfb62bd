-- Cancelled flights have no delay; they are sent to another topic (cancellations.toml).
SELECT
    origin AS airport,
    time_hour AS hour,
    count(*) AS flights,
    round(avg(dep_delay), 1) AS departure_delay,
    round(avg(arr_delay), 1) AS arrival_delay,
    count_if(dep_delay > 60) AS late_by_an_hour
FROM source
WHERE dep_delay IS NOT NULL
GROUP BY origin, time_hour

SELECT carrier, flight, origin, dest, time_hour AS scheduled
FROM source
WHERE dep_delay IS NULL

"""What any service needs: errors, wire, telemetry, database, jobs, cache, outbound calls. No word of commerce."""

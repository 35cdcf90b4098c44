"""What any service needs: settings, errors, wire, telemetry, database, jobs, outbound calls. No word of commerce."""

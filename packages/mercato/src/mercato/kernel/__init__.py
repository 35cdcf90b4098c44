"""What any service needs: settings, errors, wire, telemetry, database, jobs, outbound calls. It knows no commerce."""

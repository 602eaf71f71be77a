"""The central agency as a service: requests, plans, progress, releases and the ledger, over HTTP.

The service adds no mathematics: it keeps state and calls the rooms of the library. From the outside in:

- `run`, `main`: processes; the application and what surrounds every request;
- `routes`: thin, for programs and browsers; every route declares who may call it (`rights`);
- `services`: one concept per file; they take the `Agency` and the `Caller`, and return frozen views;
- `worker`: a process of its own that plans and audits, job by job;
- `database`, `tables`, `migrations`: SQLite or PostgreSQL.

Nothing in here is imported by the library itself: it needs the extra `elldelta[server]`.
"""

"""The SQL of the ingest ledger in PostgreSQL: its tables, and a statement for each of its steps.

A job's request and uploads exist until it ends. Jobs of a collection are ordered by (place, created, number); a job
that is put back gets a place before all others of its tenant. Names in `%(…)s` are the statements' parameters.
"""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE ingest_jobs (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text NOT NULL, tenant text NOT NULL, collection text NOT NULL,
        created double precision NOT NULL, place double precision NOT NULL,
        request text, progress text NOT NULL,
        status text NOT NULL DEFAULT 'queued', worker text, cancel boolean NOT NULL DEFAULT false,
        attempts integer NOT NULL DEFAULT 0, ended timestamptz,
        UNIQUE (tenant, id)
    )
    """,
    # two workers never run jobs of one collection, whatever they see of each other
    """
    CREATE UNIQUE INDEX ingest_jobs_running ON ingest_jobs (tenant, collection) WHERE status = 'running'
    """,
    """
    CREATE INDEX ingest_jobs_queued ON ingest_jobs (tenant, collection, place, created, number)
    WHERE status = 'queued'
    """,
    "CREATE INDEX ingest_jobs_created ON ingest_jobs (tenant, created)",
    "CREATE INDEX ingest_jobs_ended ON ingest_jobs (ended) WHERE ended IS NOT NULL",
    # a part of an upload; uploads are mostly compressed already
    """
    CREATE TABLE ingest_pieces (
        tenant text NOT NULL DEFAULT current_setting('app.tenant'),
        job bigint NOT NULL REFERENCES ingest_jobs ON DELETE CASCADE, file integer NOT NULL, piece integer NOT NULL,
        bytes bytea NOT NULL, PRIMARY KEY (job, file, piece)
    )
    """,
    "ALTER TABLE ingest_pieces ALTER COLUMN bytes SET STORAGE EXTERNAL",
    "CREATE TABLE ingest_turns (tenant text PRIMARY KEY, turn bigint NOT NULL)",
    "CREATE SEQUENCE ingest_turn",
    "CREATE TABLE ingest_workers (name text PRIMARY KEY, heard timestamptz NOT NULL)",
    "CREATE TABLE ingest_ended (status text PRIMARY KEY, jobs bigint NOT NULL)",
)

KEPT = ("ingest_jobs", "ingest_pieces", "ingest_turns", "ingest_ended")
"""The tables that have more than who is alive; each comes after those that it refers to."""

FENCED = ("ingest_jobs", "ingest_pieces", "ingest_turns")
"""The tables that have rows of tenants; the others have names of workers, and numbers of all jobs together."""

ADD = """
    INSERT INTO ingest_jobs (id, tenant, collection, created, place, request, progress)
    VALUES (%(id)s, %(tenant)s, %(collection)s, %(created)s, %(created)s, %(request)s, %(progress)s)
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING number
"""

ADD_PIECE = "INSERT INTO ingest_pieces (job, file, piece, bytes) VALUES (%(job)s, %(file)s, %(piece)s, %(bytes)b)"

PIECE = "SELECT bytes FROM ingest_pieces WHERE job = %(job)s AND file = %(file)s AND piece = %(piece)s"

_FREE = """
    FROM ingest_jobs j LEFT JOIN ingest_turns t ON t.tenant = j.tenant
    WHERE j.status = 'queued'
    AND NOT EXISTS (
        SELECT 1 FROM ingest_jobs r
        WHERE r.status = 'running' AND r.tenant = j.tenant AND r.collection = j.collection
    )
    AND NOT EXISTS (
        SELECT 1 FROM ingest_jobs e
        WHERE e.status = 'queued' AND e.tenant = j.tenant AND e.collection = j.collection
        AND (e.place, e.created, e.number) < (j.place, j.created, j.number)
    )
"""
"""The first waiting job of each collection in which none runs."""

AVAILABLE = f"SELECT EXISTS (SELECT 1 {_FREE})"

TAKE = f"""
    WITH free AS (
        SELECT j.number {_FREE} AND j.number <> ALL (%(except)s)
        ORDER BY coalesce(t.turn, 0), j.tenant, j.place, j.created, j.number
        LIMIT 1 FOR UPDATE OF j SKIP LOCKED
    ), taken AS (
        UPDATE ingest_jobs SET status = 'running', worker = %(worker)s, attempts = attempts + 1
        FROM free WHERE ingest_jobs.number = free.number
        RETURNING ingest_jobs.number, id, ingest_jobs.tenant, collection, created, attempts
    ), turned AS (
        INSERT INTO ingest_turns SELECT tenant, nextval('ingest_turn') FROM taken
        ON CONFLICT (tenant) DO UPDATE SET turn = excluded.turn
    )
    SELECT number, id, tenant, collection, created, attempts FROM taken
"""

REQUEST = "SELECT request FROM ingest_jobs WHERE number = %(number)s"

_HELD = "number = %(number)s AND status = 'running' AND worker = %(worker)s"

STATE = f"SELECT cancel FROM ingest_jobs WHERE {_HELD}"

REPORT = f"UPDATE ingest_jobs SET progress = %(progress)s WHERE {_HELD}"

END = f"""
    UPDATE ingest_jobs SET status = %(status)s, progress = %(progress)s, request = NULL, worker = NULL, cancel = false,
        attempts = 0, ended = clock_timestamp()
    WHERE {_HELD}
"""

PUT_BACK = f"""
    UPDATE ingest_jobs j SET status = 'queued', worker = NULL, attempts = attempts - 1, place = least(place, (
        SELECT min(e.place) - 1 FROM ingest_jobs e WHERE e.status = 'queued' AND e.tenant = j.tenant
    ))
    WHERE {_HELD}
"""

CANCEL_WAITING = """
    UPDATE ingest_jobs SET status = 'cancelled', request = NULL, attempts = 0, ended = clock_timestamp()
    WHERE tenant = %(tenant)s AND id = %(id)s AND status = 'queued'
    RETURNING number
"""

CANCEL_RUNNING = """
    UPDATE ingest_jobs SET cancel = true WHERE tenant = %(tenant)s AND id = %(id)s AND status = 'running'
"""

DROP_PIECES = "DELETE FROM ingest_pieces WHERE job = %(number)s"

COUNT = """
    INSERT INTO ingest_ended VALUES (%(status)s, 1) ON CONFLICT (status) DO UPDATE SET jobs = ingest_ended.jobs + 1
"""

JOB = "SELECT status, progress, collection FROM ingest_jobs WHERE tenant = %(tenant)s AND id = %(id)s"

JOBS = """
    SELECT status, progress, collection, created FROM ingest_jobs WHERE tenant = %(tenant)s
    ORDER BY created DESC, id DESC LIMIT %(limit)s
"""

ENDED_WITH_NAMES = """
    SELECT number, progress FROM ingest_jobs
    WHERE tenant = %(tenant)s AND collection = %(collection)s AND ended IS NOT NULL
    AND progress NOT LIKE '%%"failures":[],"notes":[]}'
"""

REPLACE_PROGRESS = "UPDATE ingest_jobs SET progress = %(progress)s WHERE number = %(number)s AND ended IS NOT NULL"

RENAME = """
    UPDATE ingest_jobs SET collection = %(new)s
    WHERE tenant = %(tenant)s AND collection = %(collection)s AND ended IS NOT NULL
"""

WAITING = "SELECT count(*) FROM ingest_jobs WHERE tenant = %(tenant)s AND status = 'queued'"

COUNTS = """
    SELECT status, count(*), min(created) FROM ingest_jobs WHERE status IN ('queued', 'running') GROUP BY status
"""

ENDED = "SELECT status, jobs FROM ingest_ended"

HEARD = """
    INSERT INTO ingest_workers VALUES (%(worker)s, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET heard = excluded.heard
"""

NOT_PUT_BACK = """
    UPDATE ingest_jobs SET attempts = attempts - 1
    WHERE status = 'running' AND worker = %(worker)s AND id = ANY (%(ids)s)
"""

RECLAIM = """
    UPDATE ingest_jobs SET status = 'queued', worker = NULL WHERE number IN (
        SELECT j.number FROM ingest_jobs j
        WHERE j.status = 'running' AND CASE
            WHEN j.worker = %(worker)s THEN j.id <> ALL (%(running)s)
            ELSE NOT EXISTS (
                SELECT 1 FROM ingest_workers w
                WHERE w.name = j.worker AND w.heard >= clock_timestamp() - make_interval(secs => %(lapse)s)
            )
        END
        FOR UPDATE SKIP LOCKED
    )
"""

FORGET_WORKERS = "DELETE FROM ingest_workers WHERE heard < clock_timestamp() - make_interval(secs => %(age)s)"

FORGET_JOBS = "DELETE FROM ingest_jobs WHERE ended < clock_timestamp() - make_interval(secs => %(age)s)"

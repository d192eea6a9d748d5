package postgres

// A write is one statement that decides by itself: it returns a row, or changes nothing.
const (
	createSQL     = makeSQL + madeSQL
	createMoreSQL = makeSQL + `, labelled AS (
	INSERT INTO SCHEMA.labels (run, key, value, started, id, status, recipe, queue)
	SELECT made.key, u.key, u.value, made.started, made.id, made.status, made.recipe, made.queue
	FROM made, unnest($17::text[], $18::text[]) AS u(key, value)
), asked AS (
	INSERT INTO SCHEMA.pauses (run, seq, id, kind, opened, expires, due, run_id, recipe)
	SELECT made.key, u.*, made.id, made.recipe
	FROM made, unnest($19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::text[]) AS u
)` + madeSQL

	makeSQL = `WITH made AS (
	INSERT INTO SCHEMA.runs
		(id, recipe, digest, started, seq, updated, summary, status, due, owner, epoch, until, queue, parent, figures)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, clock_timestamp() + $11 * interval '1 microsecond', $14, $15,
		$16)
	ON CONFLICT (id) DO NOTHING RETURNING key, id, recipe, started, seq, until, status, queue
), kept AS (
	INSERT INTO SCHEMA.definitions (digest, line) SELECT $3, $12 FROM made WHERE $12::bytea IS NOT NULL
	ON CONFLICT (digest) DO NOTHING
), added AS (
	INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, $13 FROM made
)`
	madeSQL = ` SELECT key, until FROM made`

	appendSQL = `WITH done AS (UPDATE SCHEMA.runs SET seq = $5, updated = $6` + appendedSQL
	changeSQL = `WITH done AS (` + changedSQL + whereSQL + `)` + relabelSQL + recordedSQL
	// askSQL is changeSQL with other pauses: it keeps those of $13 and opens some.
	askSQL = `WITH done AS (` + changedSQL + whereSQL + `, id, recipe), closed AS (
	DELETE FROM SCHEMA.pauses p USING done WHERE p.run = done.key AND p.seq <> ALL($13::bigint[])
), asked AS (
	INSERT INTO SCHEMA.pauses (run, seq, id, kind, opened, expires, due, run_id, recipe)
	SELECT done.key, u.*, done.id, done.recipe
	FROM done, unnest($14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[]) AS u
)` + relabelSQL + recordedSQL

	// With $12 the run has ended: nobody holds it any more, although its lease is valid until it is released.
	changedSQL = `UPDATE SCHEMA.runs SET seq = $5, updated = $6, summary = $8, status = $9, due = $10,
	figures = $11, until = CASE WHEN $12 THEN clock_timestamp() ELSE until END`
	relabelSQL = `, labelled AS (
	UPDATE SCHEMA.labels l SET status = $9 FROM done WHERE l.run = done.key AND l.status <> $9
)`
	whereSQL    = ` WHERE key = $1 AND epoch = $2 AND owner = $3 AND seq = $4 RETURNING key, seq`
	recordedSQL = ` INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, $7 FROM done`
	appendedSQL = whereSQL + `)` + recordedSQL

	// allSQL is appendSQL for many runs, whose rows it locks in the order of all writes; it returns those that
	// were as they should be. The arguments are those of appendSQL, as arrays.
	allSQL = `WITH new AS MATERIALIZED (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[])
		AS u(key, epoch, owner, after, seq, updated, lines)
), free AS MATERIALIZED (
	SELECT r.key, u.seq, u.updated, u.lines FROM SCHEMA.runs r JOIN new u ON r.key = u.key
	WHERE r.epoch = u.epoch AND r.owner = u.owner AND r.seq = u.after ORDER BY r.id FOR UPDATE OF r
), done AS (
	UPDATE SCHEMA.runs r SET seq = f.seq, updated = f.updated FROM free f WHERE r.key = f.key
	RETURNING r.key, r.seq, f.lines
) INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, lines FROM done RETURNING run`

	leaseSQL = `UPDATE SCHEMA.runs SET owner = $5, epoch = $6, until = clock_timestamp() + $7 * interval '1 microsecond'
WHERE id = $1 AND epoch = $2 AND owner = $3 AND ($4::timestamptz IS NULL OR until = $4) RETURNING until`

	// seq keeps a run for which records come at the same time; the order of locks is that of all writes.
	deleteSQL = `WITH free AS MATERIALIZED (
	SELECT r.key FROM SCHEMA.runs r
	JOIN unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[], $5::bigint[])
		AS u(key, epoch, owner, until, seq)
	USING (key, epoch, owner, until, seq) ORDER BY r.id FOR UPDATE OF r
), gone AS (
	DELETE FROM SCHEMA.runs WHERE key IN (SELECT key FROM free) RETURNING key
), swept AS (
	DELETE FROM SCHEMA.records WHERE run IN (SELECT key FROM gone)
), unlabelled AS (
	DELETE FROM SCHEMA.labels WHERE run IN (SELECT key FROM gone)
), closed AS (
	DELETE FROM SCHEMA.pauses WHERE run IN (SELECT key FROM gone)
), dropped AS (
	DELETE FROM SCHEMA.signals WHERE run IN (SELECT key FROM gone)
) SELECT count(*) FROM gone`

	putSQL = `INSERT INTO SCHEMA.documents (collection, name, line) VALUES ($1, $2, $3)
ON CONFLICT (collection, name) DO UPDATE SET line = excluded.line`

	addSQL  = `INSERT INTO SCHEMA.documents (collection, name, line) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	swapSQL = `UPDATE SCHEMA.documents SET line = $4 WHERE collection = $1 AND name = $2 AND line = $3`
	dropSQL = `DELETE FROM SCHEMA.documents WHERE collection = $1 AND name = $2 AND line = $3`

	removeSQL = `WITH all_of_it AS MATERIALIZED (
	SELECT num FROM SCHEMA.documents WHERE collection = $1 ORDER BY name FOR UPDATE
) DELETE FROM SCHEMA.documents WHERE num IN (SELECT num FROM all_of_it)`

	// The lock is against the end of the run, and against a claim.
	signalSQL = `WITH run AS MATERIALIZED (
	SELECT key FROM SCHEMA.runs WHERE id = $1 AND status <> ALL($5::text[]) FOR SHARE
) INSERT INTO SCHEMA.signals (run, id, line, call) SELECT key, $2, $3, $4 FROM run ON CONFLICT (run, id) DO NOTHING`

	endSignalsSQL = `WITH run AS MATERIALIZED (
	SELECT key FROM SCHEMA.runs WHERE id = $1 AND epoch = $2 AND owner = $3 FOR SHARE
), done AS (
	UPDATE SCHEMA.signals s SET done = true FROM run WHERE s.run = run.key AND s.id = ANY($4::text[]) AND NOT s.done
) SELECT key FROM run`

	signalsSQL = `SELECT s.id, s.line, s.call, s.done FROM SCHEMA.runs r
LEFT JOIN SCHEMA.signals s ON s.run = r.key WHERE r.id = $1 ORDER BY s.num`

	// Whatever the statistics say, the index of each run is looked at: OFFSET keeps the server from another plan.
	openSignalsSQL = `SELECT r.id, s.id, s.line, s.call, s.done FROM SCHEMA.runs r
LEFT JOIN LATERAL (SELECT * FROM SCHEMA.signals WHERE run = r.key AND NOT done OFFSET 0) s ON true
WHERE r.id = ANY($1::text[]) ORDER BY s.num`

	// dueSQL is a condition. A run that has an answer is due if one of its other pauses is. Store.lead has found the
	// few runs of the index runs_due, or that they are many: nullif keeps the server from sorting those, which
	// runs_dated has in order.
	dueSQL = `r.due <> '' AND nullif(r.due, '') <= %[1]s AND (NOT EXISTS (SELECT FROM SCHEMA.signals s
	WHERE s.run = r.key AND s.id LIKE 'answer:%%' AND NOT s.done) OR EXISTS (SELECT FROM SCHEMA.pauses p
	WHERE p.run = r.key AND p.due <> '' AND p.due <= %[1]s AND ` + openSQL + `))`
	openSQL = `NOT EXISTS
	(SELECT FROM SCHEMA.signals s WHERE s.run = p.run AND s.id = 'answer:' || p.id AND NOT s.done)`

	answeredSQL = `SELECT EXISTS (SELECT FROM SCHEMA.signals WHERE run = $1 AND id = $2 AND NOT done)`

	columnsSQL = `r.id, r.key, r.started, r.seq, r.updated, r.summary, r.owner, r.epoch, r.until`
	headSQL    = `SELECT ` + columnsSQL + `, clock_timestamp() FROM SCHEMA.runs r `

	sampleSQL = `SELECT key, recipe, queue, started, status, figures,
	CASE WHEN until > statement_timestamp() THEN owner END
FROM SCHEMA.runs WHERE ($1 = '' OR started >= $1) AND ($2 = '' OR started < $2)`

	pruneSQL = headSQL + `WHERE status = $1 AND started < $2 AND updated < $3 AND (started, id) > ($4, $5)
ORDER BY started, id LIMIT $6`
)

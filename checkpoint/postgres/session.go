package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session is what the store asks of its sessions.
type session struct {
	schema  string // quoted
	channel string // on which changes are told: the schema, not quoted
	name    string // of this store, in what it tells
	pooled  bool   // a session is the store's for one transaction only
	names   []string
	values  []string
}

// localSQL makes settings for a transaction, checkSQL returns those that a session does not have, with what it should
// have.
const (
	localSQL = "SELECT set_config(n, v, true) FROM unnest($1::text[], $2::text[]) AS s(n, v)"
	checkSQL = "SELECT n, now, should FROM (SELECT n, current_setting(n) AS now, set_config(n, v, true) AS should " +
		"FROM unnest($1::text[], $2::text[]) AS s(n, v)) AS t WHERE now <> should"
)

const poolerHint = "\n  hint: behind PgBouncer in transaction mode, add pooler=transaction to the URL"

// lockTime is how long to wait for a lock: a process that was stopped in the middle of a write must not stop others for
// good.
const lockTime = "5s"

// connectTime is how long to wait for a connection, unless the URL says it: less than a lease lasts.
const connectTime = 5 * time.Second

func config(url string, opts *Options) (*pgxpool.Config, *session, error) {
	cfg, err := pgxpool.ParseConfig(url)
	isURL := strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
	// The cause may quote any part of a URL, and so may the server when a password with a slash in
	// it was taken for the database.
	if err != nil || !isURL || strings.Contains(cfg.ConnConfig.Database, "@") {
		return nil, nil, errors.New("postgres store: the URL is malformed\n" +
			"  hint: postgres://user:password@host:5432/database?sslmode=require, with %2F for a slash in the password")
	}
	params := cfg.ConnConfig.RuntimeParams
	schema := params["schema"]
	delete(params, "schema")
	if opts != nil && opts.Schema != "" {
		schema = opts.Schema
	}
	if schema == "" {
		schema = "braise"
	}
	pooler := params["pooler"]
	delete(params, "pooler")
	if pooler != "" && pooler != "transaction" {
		return nil, nil, fmt.Errorf("postgres store: pooler is %q, not \"transaction\"", pooler)
	}
	s := &session{schema: pgx.Identifier{schema}.Sanitize(), channel: schema, name: rand.Text(), pooled: pooler != ""}
	params["search_path"] = s.schema
	params["default_transaction_isolation"] = "read committed"
	for name, val := range map[string]string{
		"synchronous_commit": "on",
		"lock_timeout":       lockTime,
		"application_name":   "braise",
	} {
		if params[name] == "" {
			params[name] = val
		}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTime
	}
	s.keep(cfg)
	return cfg, s, nil
}

// keep sees to it that sessions have the settings that are asked for. A pooler may drop them without a word, so each
// new session is looked at. In transaction mode nothing stays with a session: each transaction makes its settings
// itself, no statement stays prepared, and all names have their schema.
func (s *session) keep(cfg *pgxpool.Config) {
	params := cfg.ConnConfig.RuntimeParams
	check := &session{}
	all := []string{"synchronous_commit", "lock_timeout", "search_path", "default_transaction_isolation"}
	for _, name := range all {
		to := check
		if s.pooled && (name == "synchronous_commit" || name == "lock_timeout") {
			to = s
		}
		if !s.pooled || name != "search_path" {
			to.names, to.values = append(to.names, name), append(to.values, params[name])
		}
		if s.pooled {
			delete(params, name)
		}
	}
	if s.pooled {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	cfg.AfterConnect = check.check
}

// check returns an error when a session does not have its settings.
func (s *session) check(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, checkSQL, pgx.QueryExecModeExec, s.names, s.values)
	var name, now, should string
	var wrong []string
	_, err := pgx.ForEachRow(rows, []any{&name, &now, &should}, func() error {
		wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", name, now, should))
		return nil
	})
	if err == nil && wrong != nil {
		err = fmt.Errorf("the session is not as asked for: %s"+poolerHint, strings.Join(wrong, ", "))
	}
	return err
}

// begin makes the settings of a transaction that has begun.
func (s *session) begin(ctx context.Context, tx pgx.Tx) error {
	if !s.pooled {
		return nil
	}
	_, err := tx.Exec(ctx, localSQL, s.names, s.values)
	return err
}

// hinted adds a hint to the refusal of a pooler.
func hinted(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && strings.Contains(pg.Message, "unsupported startup parameter") {
		return fmt.Errorf("%w"+poolerHint, err)
	}
	return err
}

package store

import (
	"context"
	"database/sql"
	"fmt"
)

// Users are the accounts.
type Users struct{ DB *sql.DB }

// ByName finds the accounts of a name.
func (u Users) ByName(ctx context.Context, name string) (*sql.Rows, error) {
	return u.DB.QueryContext(ctx, fmt.Sprintf("SELECT id, name FROM users WHERE name = '%s'", name))
}

// Delete removes an account.
func (u Users) Delete(ctx context.Context, id int64) error {
	_, err := u.DB.ExecContext(ctx, "DELETE FROM users WHERE id = $1", id)
	return err
}
